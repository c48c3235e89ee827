"""Complete run in which a rail sags, started as a user would, checked through every interface."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.guard.foresight import is_reflex
from rules.policy.loading import builtin_policy_files
from simulator.driver.state import StateFile
from telemetry.entities import EntityKind
from telemetry.series import series_of
from telemetry.store.embedded import EmbeddedReader
from tests.integration.running import Fields, Node, node_up, quick_sag, railwatch
from tests.simulator.driver.remote_nvml import RemoteNvml, remote_nvml

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
LIMIT_V = 11.40  # ATX12V design guides: the lowest voltage in range at the load's end
SM_CLOCK = 1  # NVML_CLOCK_SM, nvml.h
UTC_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
CAPS_OF_SUPPLY = ("joint-ageing-clock-cap", "supply-sag-clock-cap")
# Every GPU gets its own action record, so the order is that of the first of each kind.
LOOP = ["finding", "incident", "decision", "action", "outcome"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SagRun:
    node: Node
    status: int
    app_clocks_mhz: dict[str, list[int]]
    requests: dict[str, list[bytes]]

    @property
    def lines(self) -> list[Fields]:
        """Return the reports, without the reflex, which precedes all of them."""
        return [line for line in self.node.lines if not is_reflex(str(line.get("incident_id")))]


@pytest.fixture(scope="module")
def sag(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SagRun]:
    folder = tmp_path_factory.mktemp("sag")
    # Late enough to look at the driver before the cap, on a slow machine too.
    with node_up(folder / "data", "--config", _for_the_job(folder), *quick_sag(folder, at_s=15)) as node:
        assert node.url
        context = node.context
        assert context.state_file is not None
        driver = {"RAILWATCH_PLANT": context.state_file, "LD_LIBRARY_PATH": context.library_dir or ""}
        state = StateFile(Path(context.state_file), mode="read")
        with remote_nvml(driver) as nvml:
            nvml.call("nvmlInit")
            handles = [nvml.gpu(index) for index in range(4)]
            clocks = {"before": _app_clocks_mhz(nvml, handles)}
            requests = {"before": _requests(state)}
            node.line(type="outcome")
            clocks["capped"] = _app_clocks_mhz(nvml, handles)
            requests["capped"] = _requests(state)
            status = node.end()
            # The driver's state stays mapped after the run has taken its file away: this is what it was left at.
            clocks["after"] = _app_clocks_mhz(nvml, handles)
            requests["after"] = _requests(state)
        state.close()
        yield SagRun(node=node, status=status, app_clocks_mhz=clocks, requests=requests)


def _for_the_job(folder: Path) -> str:
    """Write a site's policies: those that cap for a supply, for all GPUs of the job in place of those of the supply."""
    rules, config = folder / "rules", folder / "railwatch.yaml"
    rules.mkdir()
    for path in builtin_policy_files():
        if path.stem in CAPS_OF_SUPPLY:
            text = path.read_text(encoding="utf-8")
            (rules / path.name).write_text(text.replace("all_gpus_of_supply", "all_gpus_of_job"), encoding="utf-8")
    config.write_text(json.dumps({"rules": {"dirs": [str(rules)]}}), encoding="utf-8")
    return str(config)


def _app_clocks_mhz(nvml: RemoteNvml, handles: list[dict[str, str]]) -> list[int]:
    return [nvml.call("nvmlDeviceGetApplicationsClock", handle, SM_CLOCK) for handle in handles]


def _requests(state: StateFile) -> list[bytes]:
    return [state.record["request"][index].tobytes() for index in range(state.gpu_count)]


def first(lines: list[Fields], **wanted: Any) -> Fields:
    return next(line for line in lines if all(line.get(key) == value for key, value in wanted.items()))


def test_every_line_is_json_with_a_utc_time_and_a_type_and_states_that_it_is_simulated(sag: SagRun) -> None:
    assert sag.status == 0, sag.node.story()
    assert sag.node.not_json == []
    for line in sag.lines:
        assert UTC_TIME.fullmatch(line["time"]), line
        assert line["type"] in (*LOOP, "event", "summary")
        assert line["simulated"] is True, line


def test_the_first_line_on_the_terminal_states_that_the_node_is_simulated(sag: SagRun) -> None:
    assert "simulated node " in sag.node.output[0]
    assert "mode: enforce" in sag.node.output[1]
    assert not [text for text in sag.node.output if "Traceback" in text or " ERROR " in text]


def test_a_finding_leads_to_an_incident_a_decision_an_action_and_an_outcome(sag: SagRun) -> None:
    firsts = {name: first(sag.lines, type=name) for name in LOOP}
    assert [firsts[name]["time"] for name in LOOP] == sorted(firsts[name]["time"] for name in LOOP)
    incident = firsts["incident"]
    # The joint may be reported as ageing before the rail is too low; then the sag joins that incident and leads it.
    assert firsts["finding"]["cause"] == incident["cause"]
    assert incident["cause"] in ("supply_sag", "joint_ageing")
    assert "supply_sag" in [line["cause"] for line in sag.lines if line.get("id") == incident["id"]]
    # The cap may come before the second supply is below its limit for long enough.
    assert {*incident["affected"]} & {"supply:psu0", "supply:psu1"} == {*incident["affected"]} != set()
    decision = first(sag.lines, type="decision", id=firsts["action"]["decision_id"])
    assert decision["verdict"] == "execute"
    # The process list of the driver and /proc showed whose processes are on the GPUs.
    assert "for the job slurm:1000 on gpu0, gpu1, gpu2, gpu3" in decision["reason"]
    for line in (decision, firsts["action"], firsts["outcome"]):
        assert line["incident_id"] == incident["id"]


def test_no_line_comes_before_its_cause(sag: SagRun) -> None:
    place = {line["id"]: number for number, line in reversed(list(enumerate(sag.lines))) if "id" in line}
    for number, line in enumerate(sag.lines):
        if line["type"] == "action":
            assert place[line["decision_id"]] < number, line
        if line["type"] in ("decision", "action", "outcome"):
            assert place[line["incident_id"]] < number, line


def test_each_action_states_what_was_found_set_and_read_back(sag: SagRun) -> None:
    applied = sag.node.acts(state="applied")
    assert len({line["entity_id"] for line in applied}) == 4
    for line in applied:
        assert line["wanted"] == line["read_back"]
        assert 135 <= line["wanted"] < 1530  # the clocks of a V100 SXM2
        assert line["found"] is None  # no applications clock had been set
        assert line["unit"] == "MHz"
        assert line["lease_until_ns"] > line["time_ns"]
    released = sag.node.acts(state="released")
    assert {line["entity_id"] for line in released} == {line["entity_id"] for line in applied}
    assert all(line["read_back"] is None for line in released)


def test_an_answer_that_was_ready_went_ahead_of_the_rules_and_let_go_when_their_own_stood(sag: SagRun) -> None:
    reflex = [line for line in sag.node.of(type="action") if is_reflex(line["incident_id"])]
    for entity_id in {line["entity_id"] for line in reflex}:
        applied, released = (line for line in reflex if line["entity_id"] == entity_id)
        (own, *_) = sag.node.acts(state="applied", entity_id=entity_id)
        assert (applied["state"], released["state"]) == ("applied", "released")
        assert applied["time_ns"] < own["time_ns"] < released["time_ns"]
        assert own["time_ns"] - applied["time_ns"] < 1_000_000_000
        assert released["wanted"] == own["wanted"], "the rules' own cap stands"
    assert len(reflex) == 8
    assert len({line["incident_id"] for line in reflex}) == 1


def test_the_voltage_falls_below_the_limit_and_recovers(sag: SagRun) -> None:
    outcome = first(sag.lines, type="outcome")
    assert outcome["helped"] is True
    assert outcome["before"] < LIMIT_V < outcome["after"]
    with closing(EmbeddedReader(sag.node.data_dir / "store")) as reader:
        rail = reader.series(EntityKind.SUPPLY, ["voltage_v"], start_ns=0, stop_ns=1 << 62)
    lowest_v = np.nanmin(rail.signal("voltage_v"), axis=1)
    capped_ns = max(line["time_ns"] for line in sag.node.acts(state="applied"))
    released_ns = min(line["time_ns"] for line in sag.node.acts(state="released"))
    assert lowest_v[rail.time_ns < capped_ns].min() < LIMIT_V
    held = (rail.time_ns > capped_ns + 1_000_000_000) & (rail.time_ns < released_ns)
    assert held.sum() > 100
    assert lowest_v[held].min() > LIMIT_V


def test_the_summary_comes_last_and_no_cap_is_left(sag: SagRun) -> None:
    summary = sag.lines[-1]
    assert summary["type"] == "summary"
    assert summary["caps_left"] == 0
    assert summary["troubles"] == {}
    # One that became part of another before it was confirmed is reported as closed, and never as open.
    opened = {line["id"] for line in sag.node.of(type="incident") if line["state"] != "closed"}
    assert summary["incidents"] == len(opened) > 0
    for name in ("finding", "decision", "action", "outcome"):
        assert summary[f"{name}s"] == len(sag.node.of(type=name))


def test_the_drivers_clocks_are_back_where_they_were(sag: SagRun) -> None:
    capped_mhz = {line["wanted"] for line in sag.node.acts(state="applied")}
    assert set(sag.app_clocks_mhz["capped"]) <= capped_mhz
    assert sag.app_clocks_mhz["after"] == sag.app_clocks_mhz["before"]
    assert sag.requests["capped"] != sag.requests["before"]
    assert sag.requests["after"] == sag.requests["before"]


def test_nothing_is_left_behind(sag: SagRun) -> None:
    assert sag.node.leftovers() == []


def test_incidents_and_actions_can_be_read_after_the_run(sag: SagRun) -> None:
    where = ("--data-dir", str(sag.node.data_dir), "--json")
    incidents = railwatch("incidents", "list", *where).rows
    assert {row["id"] for row in incidents} == {line["id"] for line in sag.node.of(type="incident")}
    acted_on = first(sag.lines, type="action")["incident_id"]
    (incident,) = (row for row in incidents if row["id"] == acted_on)
    shown = railwatch("incidents", "show", incident["id"][:8], *where).rows
    assert shown[0] == incident
    assert {row["type"] for row in shown} == {"incident", "decision", "action", "outcome"}
    actions = railwatch("actions", "list", *where).rows
    assert {row["state"] for row in actions} == {"released"}
    assert len([row for row in actions if not is_reflex(row["incident_id"])]) == 4
    assert railwatch("actions", "list", "--in-force", *where).rows == []


def test_every_record_on_disk_states_that_it_is_simulated(sag: SagRun) -> None:
    for journal in ("guard", "actuator"):
        lines = (sag.node.data_dir / "journal" / f"{journal}.jsonl").read_text().splitlines()
        assert lines
        assert all(json.loads(line)["simulated"] is True for line in lines)
    where = ("--data-dir", str(sag.node.data_dir), "--json")
    for command in (("incidents", "list"), ("actions", "list")):
        assert all(row["simulated"] is True for row in railwatch(*command, *where).rows)


def test_the_embedded_store_keeps_samples_and_rollups(sag: SagRun) -> None:
    with closing(EmbeddedReader(sag.node.data_dir / "store")) as reader:
        for kind, signal, entities in ((EntityKind.GPU, "power_w", 4), (EntityKind.SUPPLY, "voltage_v", 2)):
            raw = reader.series(kind, [signal], start_ns=0, stop_ns=1 << 62)
            assert raw.spec.shape == (entities, 1)
            assert len(raw) > 20 * 20 * 0.9  # 20 Hz over more than 20 s
            low = reader.series(kind, [signal], start_ns=0, stop_ns=1 << 62, step_ns=1_000_000_000)
            assert len(low) >= 20
            # What the driver's buffer filled in later is no polled row.
            polled = [one for one in reader.frames(start_ns=0, stop_ns=1 << 62) if not one.spec.is_late]
            lowest = np.nanmin(series_of(polled, kind, [signal]).values)
            assert np.nanmin(low.signal(f"{signal}_min")) == pytest.approx(lowest, abs=1e-3)
