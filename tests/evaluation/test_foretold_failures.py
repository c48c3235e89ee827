"""The boxes of the field report: what the loss of a supply would do is reported before it is lost."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from config.guard_pipeline import pipeline_settings
from config.models import Config
from config.topology import TopologySection
from evaluation.judgement.runs import JudgedRun, order_of
from evaluation.replay import recommending, replayed
from simulator.runs.node_run import record_run
from telemetry.clock import NS_PER_S
from telemetry.recording import Recording, read_recording
from telemetry.records import Cause, Decision, Finding, Severity, Verdict

SETTINGS = recommending(pipeline_settings(Config(), simulated=True))
# The scenario turns all supplies of the bus but one off; the guard begins to judge the load after 20 s.
LOST_S, STEP_NS = 30.0, 250_000_000


def description(n_supplies: int, plugs: list[Any], redundancy: str) -> dict[str, Any]:
    """Return the box at blbadger.github.io/gpu-server: supplies of 1100 W on a site of 120 V."""
    names = [f"psu{number}" for number in range(n_supplies)]
    return {
        "feeds": [{"name": "A", "nominal_v": 120, "breaker_a": 20, "curve": "C"}],
        "supplies": [{"name": name, "rated_w": 1100, "feed": "A", "plugs": plugs} for name in names],
        "buses": [{"name": "main", "supplies": names, "redundancy": redundancy, "branches": [{"gpus": "all"}]}],
    }


def recorded(node: str, folder: Path) -> Recording:
    path = folder / "run.parquet"
    record_run(order_of(JudgedRun(scenario="psu-overload", node=node, seed=1, duration_s=LOST_S + 2)), path)
    return read_recording(path)


def judged(read: Recording, wiring: dict[str, Any]) -> tuple[list[Finding], list[Decision]]:
    settings = replace(SETTINGS, wiring=TopologySection.model_validate(wiring).wiring())
    records = [*replayed(read, settings, window_ns=STEP_NS)]
    found = [one for one in records if isinstance(one, Finding) and one.detector.startswith("supply_margins")]
    decisions = [one for one in records if isinstance(one, Decision) and one.rule.startswith("over-rating")]
    return found, decisions


@pytest.fixture(scope="module")
def two_supplies(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return recorded("v100x4", tmp_path_factory.mktemp("two"))


def start_ns(read: Recording) -> int:
    return int(next(read.frames()).time_ns[0])


def test_a_pair_that_one_supply_cannot_carry_is_reported_before_one_is_lost(two_supplies: Recording) -> None:
    found, decisions = judged(two_supplies, description(2, [{"plug": "XT60", "count": 6}], "N+1"))
    (one,) = found
    assert (one.cause, one.severity) == (Cause.REDUNDANCY_LOST, Severity.WARNING)
    assert one.time_ns - start_ns(two_supplies) < LOST_S * NS_PER_S
    # About 1600 W at full load: 4 GPUs of 300 W, 200 W of the processor, 200 W of the rest.
    assert one.number("load_w") == pytest.approx(1600.0, rel=0.15)
    assert one.number("mend_w") == pytest.approx((one.number("load_w") or 0.0) - 1100.0, abs=1.0)
    assert {decision.verdict for decision in decisions} <= {Verdict.RECOMMEND, Verdict.REFUSE}


def test_a_pair_that_is_described_as_not_redundant_is_left_alone(two_supplies: Recording) -> None:
    assert judged(two_supplies, description(2, [{"plug": "XT60", "count": 6}], "N"))[0] == []


def test_a_recording_whose_run_described_its_wiring_is_judged_by_that(two_supplies: Recording) -> None:
    wiring = TopologySection.model_validate(description(2, [], "N+1")).model_dump(mode="json", exclude_defaults=True)
    meta = replace(two_supplies.meta, config={**two_supplies.meta.config, "topology": wiring})
    found = list(replayed(replace(two_supplies, meta=meta), SETTINGS, window_ns=STEP_NS))
    assert Cause.REDUNDANCY_LOST in {one.cause for one in found if isinstance(one, Finding)}


def test_banana_plugs_of_three_supplies_are_reported_at_the_currents_of_the_field_report(tmp_path: Path) -> None:
    read = recorded("v100x4-double-ring", tmp_path)
    found, _ = judged(read, description(3, ["banana"], "N+1"))
    assert [(one.cause, one.severity) for one in found] == [(Cause.PLUG_OVER_RATING, Severity.CRITICAL)] * 3
    assert all(one.time_ns - start_ns(read) < LOST_S * NS_PER_S for one in found)
    # 1600 W at 12.06 V over three supplies are 44 A through plugs of 15 A.
    assert [one.number("load_a") for one in found] == [pytest.approx(44.0, rel=0.15)] * 3
    assert [one.number("rating_a") for one in found] == [15.0] * 3
