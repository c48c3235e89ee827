"""A node of 54 V with a weak converter behind its bus: replayed whole, drawn, and not blamed on the supplies."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from config.guard_pipeline import pipeline_settings
from config.models import Config
from evaluation.judgement.runs import JudgedRun, order_of
from evaluation.replay import recommending, replayed
from physics.feeding import feeding_of
from simulator.runs.node_run import record_run
from telemetry.entities import EntityKind, Topology
from telemetry.frames import FloatArray
from telemetry.recording import Recording, read_recording, write_recording
from telemetry.records import Cause, Decision, FaultClass, Finding, Incident, Severity, Verdict
from tests.analytics.detectors.converter_scenes import P12V, P54V
from tests.analytics.scenes import frame_of
from tests.railwatch.command_line import command_line

SETTINGS = recommending(pipeline_settings(Config(), simulated=True))
SECONDS, WEAK_S = 80, 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Recording of eight H100 on six supplies, with rails of the board as its controller reads them every second."""

    folder: Path
    base: Recording

    def with_rail(self, name: str, volts: FloatArray) -> Recording:
        """Return the recording with these readings of the 12 V rail, ``(SECONDS,)``."""
        frames = [*self.base.frames()]
        start_ns = int(frames[0].time_ns[0])
        board_v = np.round(np.full(SECONDS, 53.4) / 0.25) * 0.25
        shown_v = np.round(volts / 0.063) * 0.063
        rails = frame_of(
            EntityKind.SUPPLY,
            (P54V, P12V),
            {"rail_voltage_v": np.stack((board_v, shown_v), axis=1)},
            rate_hz=1.0,
            name="bmc_supply",
        )
        rails = replace(rails, time_ns=rails.time_ns - rails.time_ns[0] + start_ns)
        path = self.folder / f"{name}.parquet"
        supplies = (*self.base.topology.of_kind(EntityKind.SUPPLY), P54V, P12V)
        gpus = self.base.topology.of_kind(EntityKind.GPU)
        node = self.base.topology.of_kind(EntityKind.NODE)[0]
        held = tuple((node.id, one.id) for one in (P54V, P12V))
        fed = tuple(edge for edge in feeding_of(None, supplies, gpus).edges if edge not in self.base.topology.edges)
        topology = Topology(
            entities=(*self.base.topology.entities, P54V, P12V), edges=(*self.base.topology.edges, *held, *fed)
        )
        write_recording(path, [*frames, rails], topology=topology, meta=self.base.meta)
        return read_recording(path)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    folder = tmp_path_factory.mktemp("chain")
    record_run(
        order_of(JudgedRun(scenario="healthy", node="h100x8", seed=3, duration_s=SECONDS)), folder / "base.parquet"
    )
    return Node(folder=folder, base=read_recording(folder / "base.parquet"))


def load(seed: int) -> FloatArray:
    """Return the current of the 12 V rail: fans, switches and retimers."""
    return np.asarray(np.random.default_rng(seed).uniform(55.0, 62.0, SECONDS), dtype=np.float64)


def weak(seed: int = 1) -> FloatArray:
    ohm = np.where(np.arange(SECONDS) < WEAK_S, 0.001, 0.016)
    return np.asarray(12.1 - load(seed) * ohm, dtype=np.float64)


def test_a_weak_converter_is_an_incident_of_its_rail_that_blames_no_supply_and_caps_nothing(node: Node) -> None:
    records = [*replayed(node.with_rail("weak", weak()), SETTINGS, window_ns=250_000_000)]
    found = [one for one in records if isinstance(one, Finding) and one.severity is not Severity.INFO]
    assert {(one.cause, one.entity_id, one.detector) for one in found} == {
        (Cause.SUPPLY_SAG, P12V.id, "converter_rail")
    }
    assert found[0].summary.endswith("54 V bus within limits: converter or its load")
    incidents = [one for one in records if isinstance(one, Incident) and one.cause is Cause.SUPPLY_SAG]
    assert {one.entity_id for one in incidents} == {P12V.id}
    ranked = {one.cause: one.probability for one in incidents[-1].hypotheses}
    assert ranked.get(FaultClass.SUPPLY_LOST, 0.0) + ranked.get(FaultClass.INPUT_SAG, 0.0) < 0.03
    caps = [one for one in records if isinstance(one, Decision) and "cap" in one.rule]
    assert {one.verdict for one in caps} <= {Verdict.REFUSE}


def test_a_sound_converter_is_no_finding(node: Node) -> None:
    records = [*replayed(node.with_rail("sound", 12.1 - 0.001 * load(2)), SETTINGS, window_ns=250_000_000)]
    assert [one.summary for one in records if isinstance(one, Finding) and one.severity is not Severity.INFO] == []


def test_the_worst_stage_is_drawn(
    node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    node.with_rail("drawn", weak())
    status, out, _ = command_line(monkeypatch, capsys)("wiring", "show", str(node.folder / "drawn.parquet"))
    assert status == 0
    lines = out.splitlines()
    place = lines.index("converters in a row")
    assert [line.split("  ")[1] for line in lines[place + 1 : place + 4]] == [
        "54 V bus",
        "54 V at the board",
        "12 V intermediate bus",
    ]
    assert lines[place + 4] == "  54 V at the board within limits"
    assert lines[place + 5].endswith(": converter or its load")
