"""Live guard, replay and fleet judge one recording alike.

At full rate the three judge the same rows: the guard reads them from a ring in steps of uneven length and notes its
steps, a replay takes the noted steps again, another one takes steps of its own, and the panel of the fleet takes them
in windows. The findings are equal in every field. Incidents are stamped with the step that opened them: they are equal
where the steps are, else equal but for their times.

A fleet reads one row a second from the store, which shows less than the rows at full rate. So its whole judgement is
compared on such rows: those of the recording, rolled up as a node rolls them up.
"""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from agent.actuation.claims import CapRequest
from agent.guard.guard import Guard
from agent.guard.judged_tables import LOOK_EVERY_S, JudgedTables, SlowTables
from agent.guard.pipeline import Pipeline, PipelineSettings
from agent.guard.step_log import TABLE as STEPS
from agent.guard.step_log import StepLog
from agent.ring.ring import Ring
from analytics.fleet.judge import FleetJudge, FleetSettings
from analytics.fleet.topology import FeedsAndRacks, fleet_entity, fleet_topology
from analytics.fleet.window import JUDGED, FleetTable, FleetWindow, column_of
from config.guard_pipeline import pipeline_settings
from config.models import Config
from evaluation.judgement.runs import JudgedRun, order_of
from evaluation.replay import recommending, replayed
from physics.wiring import Wiring
from simulator.runs.node_run import record_run
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind
from telemetry.frames import Frame, TableSpec, joined_frames
from telemetry.gpu import KnobKind
from telemetry.record_json import to_json
from telemetry.recording import Recording, read_recording, write_recording
from telemetry.records import Action, Cause, Event, Finding, Incident, Record
from telemetry.rollup import Rollup
from tests.agent.fakes import FakeClock
from tests.agent.guard.rig import Records
from tests.fleet import described_node

SETTINGS = recommending(pipeline_settings(Config(), simulated=True))
ROWS_NS = 50_000_000
# Tables of the process for slow sources, which come in a ring of their own after the guard was made.
SLOW = frozenset(("supply_slow", "bmc_supply", "fan"))
# Steps of the guard, in rows of the fastest table: as it wakes for a low rail, and as it wakes at a steady rate.
UNEVEN = (1, 2, 6, 1, 3, 6)
WINDOW_S = 5


class NoActuator:
    """Actuator without knobs: nothing is carried out."""

    def apply(self, request: CapRequest) -> tuple[Action, ...]:
        raise AssertionError(f"nothing is to be carried out, got {request}")

    def renew(self, incident_id: str, *, lease_s: float) -> tuple[Action, ...]:
        del incident_id, lease_s
        return ()

    def release(
        self, incident_id: str, *, entity_id: str, reason: str, kind: KnobKind | None = None
    ) -> tuple[Action, ...]:
        del incident_id, entity_id, reason, kind
        return ()

    def in_force(self) -> tuple[Action, ...]:
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Recording of a node with a fault, and the cause that is named for it."""

    node: str
    scenario: str
    duration_s: float
    cause: Cause

    def record(self, folder: Path) -> Recording:
        path = folder / "run.parquet"
        job = JudgedRun(scenario=self.scenario, node=self.node, seed=3, duration_s=self.duration_s)
        record_run(order_of(job), path)
        return read_recording(path)


CASES = (
    Case(node="h100x8", scenario="psu-lost", duration_s=40, cause=Cause.SUPPLY_LOST),
    Case(node="h100x8", scenario="ac-sag", duration_s=40, cause=Cause.INPUT_SAG),
    Case(node="v100x4", scenario="psu-sag", duration_s=30, cause=Cause.SUPPLY_SAG),
    Case(node="a100x8", scenario="psu-sag", duration_s=45, cause=Cause.JOINT_AGEING),
    Case(node="h100x8-two-bus", scenario="psu-sag", duration_s=45, cause=Cause.JOINT_AGEING),
)
# Means of seconds show a supply that is lost, and not the dips of a load that steps several times a second.
SHOWN_BY_SECONDS = (CASES[0], Case(node="v100x4", scenario="psu-lost", duration_s=40, cause=Cause.SUPPLY_LOST))


def name_of(case: Case) -> str:
    return f"{case.scenario} on {case.node}"


def specs_of(recording: Recording) -> list[TableSpec]:
    """Return the tables that are judged."""
    return [spec for spec in recording.tables if not spec.is_late]


def rows_of(recording: Recording) -> list[Frame]:
    """Return their rows, in windows."""
    return [frame for frame in recording.frames(window_ns=ROWS_NS) if not frame.spec.is_late]


def steps_of(frames: Sequence[Frame], lengths: Sequence[int]) -> Iterator[list[Frame]]:
    """Yield the frames of each step, which takes so many windows of rows."""
    windows: dict[int, list[Frame]] = {}
    for frame in frames:
        windows.setdefault(int(frame.time_ns[0]) // ROWS_NS, []).append(frame)
    waiting = list(windows.values())
    place = 0
    while waiting:
        taken, waiting = waiting[: lengths[place % len(lengths)]], waiting[lengths[place % len(lengths)] :]
        place += 1
        yield [frame for frames in taken for frame in frames]


def judged_live(
    recording: Recording, folder: Path, settings: PipelineSettings = SETTINGS
) -> tuple[list[Record], Frame]:
    """Return the records of a live guard that reads the rows from two rings, and its log of steps."""
    frames, specs = rows_of(recording), specs_of(recording)
    node = recording.topology.of_kind(EntityKind.NODE)[0]
    clock = FakeClock(utc_ns=int(frames[0].time_ns[0]) - round(2 * LOOK_EVERY_S * NS_PER_S))
    fast, slow = folder / "ring", folder / "ring-slow"

    def ring_of(path: Path) -> Ring:
        own = [spec for spec in specs if (spec.name in SLOW) is (path == slow)]
        rows = dict.fromkeys((spec.name for spec in own), 1 << 15)
        return Ring.create(path, own, node=node.key, topology=recording.topology, simulated=True, rows=rows)

    ring = ring_of(fast)
    judged = JudgedTables.of(ring)
    log = StepLog(folder / "steps", [*judged.tables], node=node, simulated=True, rows=1 << 15)
    clocks = recording.meta.config.get("supported_mhz", {})
    pipeline = Pipeline(
        judged.specs,
        recording.topology,
        settings,
        supported_mhz={uuid: tuple(values) for uuid, values in clocks.items()},
        ranges=recording.meta.config.get("ranges", {}),
    )
    sink, later = Records(), SlowTables(judged, slow, clock)
    guard = Guard(
        judged.tables,
        pipeline,
        NoActuator(),
        sink,
        clock,
        snapshot_path=folder / "guard.json",
        steps=log,
        later=later,
    )
    guard.step()
    slow_ring = ring_of(slow)
    clock.advance(LOOK_EVERY_S)
    guard.step()
    tables = {**ring.tables, **slow_ring.tables}
    reports = [record for record in recording.records if isinstance(record, Event)]
    for step in steps_of(frames, UNEVEN):
        for frame in step:
            for row, time_ns in enumerate(frame.time_ns.tolist()):
                tables[frame.spec.name].append(time_ns, frame.values[row], frame.fresh[row])
        now_ns = max(int(frame.time_ns[-1]) for frame in step)
        clock.advance((now_ns - clock.utc_ns()) / NS_PER_S)
        while reports and reports[0].time_ns <= now_ns:
            guard.add_event(reports.pop(0))
        guard.step()
    assert guard.failures == 0
    steps = Ring.attach(folder / "steps").tables[STEPS].read(0).frame
    log.close()
    ring.close()
    slow_ring.close()
    return sink.records, steps


def with_steps(recording: Recording, steps: Frame, live: Sequence[Record], path: Path) -> Recording:
    """Return the recording with the log of steps and the guard's events in it, as the flight recorder writes it."""
    frames = [*recording.frames(window_ns=ROWS_NS), steps]
    first_rows = dict.fromkeys((*(spec.name for spec in recording.tables), STEPS), 0)
    meta = replace(recording.meta, about={**recording.meta.about, "first_rows": first_rows})
    events = [record for record in live if isinstance(record, Event)]
    write_recording(path, frames, topology=recording.topology, meta=meta, records=events)
    return read_recording(path)


def findings_in(records: Sequence[Record], detectors: Collection[str]) -> list[Finding]:
    """Return the findings of detectors of rows in one order: those of one time may be reported in another."""
    findings = (record for record in records if isinstance(record, Finding))
    found = [one for one in findings if one.detector.partition(".")[0] in detectors]
    return sorted(found, key=lambda one: (one.time_ns, one.id, one.status, one.summary))


def incidents_in(records: Sequence[Record], *, late_ns: int = 0) -> list[Incident]:
    """Return the incidents, with the times of their steps moved back by so much."""
    return [replace(one, time_ns=one.time_ns - late_ns) for one in records if isinstance(one, Incident)]


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_live_guard_replay_and_fleet_judge_the_same_rows_alike(case: Case, tmp_path: Path) -> None:
    recording = case.record(tmp_path)
    live, steps = judged_live(recording, tmp_path)
    noted = with_steps(recording, steps, live, tmp_path / "noted.parquet")
    assert list(replayed(noted, SETTINGS)) == live, "a replay of the noted steps gives every record again"
    panel = FleetJudge(FleetSettings(limits=SETTINGS.limits, book=SETTINGS.book)).panel
    # What judges events stamps its findings with the step that brought the event; the fleet leaves it to the nodes.
    judged = {detector.name for detector in panel.detectors}
    wanted = findings_in(live, judged)
    assert case.cause in {finding.cause for finding in wanted}
    assert findings_in(list(replayed(recording, SETTINGS)), judged) == wanted
    state, found = panel.start(specs_of(recording)), list[Finding]()
    for frames in steps_of(rows_of(recording), (100,)):
        state, new = panel.step(state, frames, recording.topology)
        found += new
    assert findings_in(found, judged) == wanted


def by_second(recording: Recording, path: Path) -> Recording:
    """Return a recording with one row a second, of what a fleet reads of this node, under the names of the fleet."""
    (node,) = recording.topology.of_kind(EntityKind.NODE)
    frames = []
    for spec in specs_of(recording):
        rollup = Rollup(spec)
        done = [rollup.feed(frame) for frame in rows_of(recording) if frame.spec.name == spec.name]
        whole = joined_frames([*done, rollup.flush(1 << 62)])
        signals = [name for name in JUDGED.get(spec.kind, ()) if column_of(spec.kind, name) in whole.spec.signals]
        if signals:
            entities = tuple(fleet_entity(one, node.key) for one in spec.entities)
            values = np.stack([whole.signal(column_of(spec.kind, name)) for name in signals], axis=2)
            shown = TableSpec(name=spec.name, kind=spec.kind, entities=entities, signals=tuple(signals))
            frames.append(Frame(spec=shown, time_ns=whole.time_ns, values=values, fresh=np.isfinite(values)))
    parts = {one.id: one for frame in frames for one in frame.spec.entities}
    topology = fleet_topology((node.key,), parts.values(), FeedsAndRacks())
    write_recording(path, frames, topology=topology, meta=recording.meta)
    return read_recording(path)


def windows_of(recording: Recording, described: Wiring | None = None) -> Iterator[FleetWindow]:
    """Yield the windows that a fleet reads of a recording with one row a second, with what its node describes."""
    first_ns, last_ns = recording.span_ns or (0, 0)
    length_ns = WINDOW_S * NS_PER_S
    (node,) = recording.topology.of_kind(EntityKind.NODE)
    members: dict[EntityKind, tuple[Entity, ...]] = {}
    for spec in recording.tables:
        members[spec.kind] = tuple(dict.fromkeys((*members.get(spec.kind, ()), *spec.entities)))
    for start_ns in range(first_ns - first_ns % length_ns, last_ns + 1, length_ns):
        stop_ns = min(start_ns + length_ns, last_ns + NS_PER_S)
        tables = {}
        for kind, entities in members.items():
            values = np.full(((stop_ns - start_ns) // NS_PER_S, len(entities), len(JUDGED[kind])), np.nan)
            for frame in recording.frames(start_ns=start_ns, stop_ns=stop_ns):
                if frame.spec.kind is kind:
                    rows = (frame.time_ns - start_ns) // NS_PER_S
                    places = [entities.index(one) for one in frame.spec.entities]
                    columns = [JUDGED[kind].index(name) for name in frame.spec.signals]
                    values[np.ix_(rows, np.array(places), np.array(columns))] = frame.values
            nodes = (node.key,) * len(entities)
            tables[kind] = FleetTable(entities=entities, nodes=nodes, signals=JUDGED[kind], values=values)
        wirings = {node.key: described} if described is not None and start_ns <= first_ns else {}
        yield FleetWindow(start_ns=start_ns, stop_ns=stop_ns, tables=tables, wirings=wirings)


@pytest.mark.parametrize("case", SHOWN_BY_SECONDS, ids=name_of)
def test_a_fleet_judges_rows_of_a_second_as_the_guard_of_the_node_and_its_replay_do(case: Case, tmp_path: Path) -> None:
    rolled_up = by_second(case.record(tmp_path), tmp_path / "seconds.parquet")
    live, steps = judged_live(rolled_up, tmp_path)
    noted = with_steps(rolled_up, steps, live, tmp_path / "noted.parquet")
    assert list(replayed(noted, SETTINGS)) == live
    again = list(replayed(rolled_up, SETTINGS, window_ns=WINDOW_S * NS_PER_S))
    judge = FleetJudge(FleetSettings(limits=SETTINGS.limits, book=SETTINGS.book))
    found: list[Record] = []
    for window in windows_of(rolled_up):
        judged = judge.step(window)
        found += (*judged.findings, *judged.incidents)
    judging = {detector.name for detector in judge.panel.detectors}
    assert {finding.cause for finding in findings_in(found, judging)} == {case.cause}
    assert findings_in(found, judging) == findings_in(live, judging) == findings_in(again, judging)
    # The fleet stamps a window with its end, a replay with its last row.
    assert incidents_in(found, late_ns=NS_PER_S) == incidents_in(again)


def at_home(records: Sequence[Record], node: str) -> list[str]:
    """Return records as the node itself writes them: its parts have no node before their name.

    The id of an incident is made of the names as they are.
    """
    texts = (json.dumps(to_json(record)).replace(f"{node}/", "") for record in records)
    return [re.sub(r'"i-[0-9a-f]+"', '"i"', text) for text in texts]


def test_a_node_that_describes_its_wiring_is_judged_with_it_by_the_guard_the_replay_and_the_fleet(
    tmp_path: Path,
) -> None:
    """Two buses, a converter behind one of them, plugs with ratings; see `tests.fleet.described_node`."""
    recording, wiring = described_node.record(tmp_path / "run.parquet"), described_node.wiring()
    live, steps = judged_live(recording, tmp_path, replace(SETTINGS, wiring=wiring))
    noted = with_steps(recording, steps, live, tmp_path / "noted.parquet")
    assert list(replayed(noted, SETTINGS)) == live
    again = list(replayed(recording, SETTINGS, window_ns=WINDOW_S * NS_PER_S))
    judge = FleetJudge(FleetSettings(limits=SETTINGS.limits, book=SETTINGS.book))
    found: list[Record] = []
    for window in windows_of(by_second(recording, tmp_path / "seconds.parquet"), wiring):
        judged = judge.step(window)
        found += (*judged.findings, *judged.incidents)
    judging, node = {detector.name for detector in judge.panel.detectors}, described_node.NODE.key
    wanted = findings_in(live, judging)
    assert {(one.cause, one.entity_id) for one in wanted} == described_node.CAUSES
    assert at_home(findings_in(found, judging), node) == at_home(findings_in(again, judging), node)
    assert at_home(findings_in(found, judging), node) == at_home(wanted, node)
    assert at_home(incidents_in(found, late_ns=NS_PER_S), node) == at_home(incidents_in(again), node)
