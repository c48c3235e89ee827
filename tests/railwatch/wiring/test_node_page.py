"""The node as the page reads it: how it does, and what of its past is shown."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agent.ring.rings import Rings
from dashboards.page.source import CollectorState
from railwatch.run_context import RunContext
from railwatch.wiring.node_page import RECENT, STALE_S, NodePage
from railwatch.wiring.sample_store import open_sample_reader, open_store_writer
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.errors import TransientError
from telemetry.records import Cause, Health, IncidentState, Severity
from telemetry.rollup import Rollup
from telemetry.store.records import RecordFile
from tests.agent.fakes import START_NS, FakeClock
from tests.railwatch.a_run import ROW_NS, a_ring, a_run_context, an_event, write_rows
from tests.rules import scenes

OPEN, MITIGATED, CLOSED = IncidentState.OPEN, IncidentState.MITIGATED, IncidentState.CLOSED
CRITICAL, WARNING = Severity.CRITICAL, Severity.WARNING


class Shown:
    """A page over a run whose ring has rows up to now."""

    def __init__(self, context: RunContext) -> None:
        self.context = context
        self.clock = FakeClock()
        self.records = RecordFile(context.config.data_dir / "records")
        self.writer = open_store_writer(context.config, node="node0", simulated=True, clock=self.clock)
        self.samples = open_sample_reader(context.config, context.config.data_dir)
        self.page = NodePage(context, self.records, self.writer, self.samples, self.clock)
        self.ring = a_ring(context)

    def rows(self, first: int, count: int) -> None:
        write_rows(self.ring, first, count)
        self.clock.advance(count * ROW_NS / NS_PER_S)

    def health(self) -> tuple[Health, str]:
        status = self.page.status()
        return status.health, status.health_reason

    def incident(self, state: IncidentState, severity: Severity, name: str = "i1") -> None:
        made = scenes.incident(Cause.SUPPLY_SAG, name=name, state=state, severity=severity)
        self.records.append([replace(made, time_ns=START_NS + 1, opened_ns=START_NS, summary=f"{name} {state}")])
        self.page.note_records()

    def collector(self, state: str, worker: str) -> None:
        source = {"name": "supply", "state": state, "detail": "", "how_to_get": "buy one"}
        (self.context.run_dir / "sources-sampler.json").write_text(json.dumps([source]))
        row = {"name": "supply", "state": worker, "detail": "why", "errors": 1, "hangs": 0, "age_s": 1.0}
        (self.context.run_dir / "workers-sampler.json").write_text(json.dumps([row]))


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Shown]:
    made = Shown(a_run_context(tmp_path))
    yield made
    made.writer.close()
    made.records.close()


def test_rows_and_nothing_open_is_healthy(shown: Shown) -> None:
    shown.rows(0, 40)
    assert shown.health() == (Health.HEALTHY, "no incident is open")
    assert shown.page.status().sampler.last_sample_ns == START_NS + 39 * ROW_NS


@pytest.mark.parametrize(
    ("incidents", "health", "reason"),
    [
        ([(OPEN, CRITICAL)], Health.UNHEALTHY, "i0 open"),
        ([(OPEN, WARNING)], Health.DEGRADED, "i0 open"),
        ([(MITIGATED, CRITICAL)], Health.DEGRADED, "i0 mitigated"),
        ([(CLOSED, CRITICAL)], Health.HEALTHY, "no incident is open"),
        ([(MITIGATED, CRITICAL), (OPEN, WARNING)], Health.DEGRADED, "i1 open"),
        ([(OPEN, WARNING), (OPEN, CRITICAL)], Health.UNHEALTHY, "i1 open"),
    ],
)
def test_health_follows_the_worst_live_incident(
    shown: Shown, incidents: list[tuple[IncidentState, Severity]], health: Health, reason: str
) -> None:
    shown.rows(0, 40)
    for number, (state, severity) in enumerate(incidents):
        shown.incident(state, severity, f"i{number}")
    assert shown.health() == (health, reason)


@pytest.mark.parametrize("worker", ["failing", "hung"])
def test_a_source_that_returns_no_answer_makes_the_health_unknown_and_an_incident_outranks_it(
    shown: Shown, worker: str
) -> None:
    shown.rows(0, 40)
    shown.collector("working", worker)
    assert shown.health() == (Health.UNKNOWN, "no answer from supply")
    assert shown.page.status().collectors[0].state is CollectorState.FAILED
    assert shown.page.status().collectors[0].detail == "why"
    shown.incident(OPEN, WARNING)
    assert shown.health()[0] is Health.DEGRADED


def test_a_source_that_is_missing_is_reported_and_is_no_fault(shown: Shown) -> None:
    shown.rows(0, 40)
    shown.collector("missing", "working")
    assert shown.health()[0] is Health.HEALTHY
    assert shown.page.status().collectors[0].how_to_get == "buy one"


def test_without_new_samples_the_health_is_unknown_whatever_was_before(shown: Shown) -> None:
    shown.rows(0, 40)
    shown.incident(OPEN, CRITICAL)
    shown.clock.advance(STALE_S)
    assert shown.health() == (Health.UNKNOWN, "no new samples")
    shown.rows(100, 1)
    assert shown.health()[0] is Health.UNHEALTHY


def test_before_the_first_sample_and_without_a_ring_the_page_still_answers(tmp_path: Path) -> None:
    shown = Shown(a_run_context(tmp_path))
    assert shown.health() == (Health.UNKNOWN, "no new samples")
    shown.context.ring_path.unlink()
    assert shown.health() == (Health.UNKNOWN, "no new samples")
    assert shown.page.status().sampler.last_sample_ns is None
    with pytest.raises(TransientError, match="no sample ring"):
        shown.page.topology()
    shown.writer.close()
    shown.records.close()


def test_while_the_sampler_restarts_history_comes_from_the_store(shown: Shown) -> None:
    shown.rows(0, 40)
    rings = Rings.attach(shown.context.ring_path)
    frames = [*rings.frames(start_ns=0, stop_ns=1 << 62)]
    shown.writer.write(frames, [Rollup(frame.spec).feed(frame) for frame in frames], [])
    shown.context.ring_path.unlink()
    found = shown.page.series(
        EntityKind.SUPPLY, ("voltage_v",), start_ns=START_NS, stop_ns=START_NS + 3600 * NS_PER_S, step_ns=NS_PER_S
    )
    assert len(found)


def test_the_page_shows_the_limit_of_a_rail_that_the_configuration_names(tmp_path: Path) -> None:
    limits = {"detectors": {"rail_sag": {"minimum_v": 11.5, "clear_above_v": 11.6}}}
    context = a_run_context(tmp_path)
    shown = Shown(replace(context, config_json=json.dumps(json.loads(context.config_json) | limits)))
    assert shown.page.status().rail_limit_v == 11.5
    shown.writer.close()
    shown.records.close()


def test_a_slow_source_is_given_the_time_of_its_periods(tmp_path: Path) -> None:
    shown = Shown(a_run_context(tmp_path, slow_hz=0.1))
    shown.rows(0, 1)
    shown.clock.advance(25.0)
    assert shown.health()[0] is Health.HEALTHY
    shown.clock.advance(10.0)
    assert shown.health() == (Health.UNKNOWN, "no new samples")
    shown.writer.close()
    shown.records.close()


def test_the_wiring_of_a_run_is_inferred_until_its_configuration_describes_one(tmp_path: Path) -> None:
    context = a_run_context(tmp_path)
    bus = {"name": "main", "supplies": ["psu0"], "branches": [{"gpus": "all"}]}
    described = {"topology": {"supplies": [{"name": "psu0", "rated_w": 750}], "buses": [bus]}}
    origins = []
    for changed in (context, replace(context, config_json=json.dumps(json.loads(context.config_json) | described))):
        context.ring_path.unlink(missing_ok=True)
        shown = Shown(changed)
        wiring = shown.page.wiring()
        origins.append((wiring.origin, wiring.supplies[0].entities, wiring.supplies[0].rated_w))
        shown.writer.close()
        shown.records.close()
    assert origins == [("inferred", ("supply:psu0",), None), ("configured", ("supply:psu0",), 750.0)]


@pytest.mark.parametrize("behind", [0, 1, 7, 8, 9, 500, 1999, 5000])
def test_updates_are_the_rows_after_a_time_and_no_others(shown: Shown, behind: int) -> None:
    shown.rows(0, 3000)
    frames = shown.page.updates({"supply": START_NS + (2999 - behind) * ROW_NS, "nobody": 0})
    numbers = [float(v) for frame in frames for v in frame.signal("voltage_v")[:, 0]]
    assert numbers == [float(n) for n in range(max(1000, 3000 - behind), 3000)]


def test_history_is_the_last_seconds_of_the_ring(shown: Shown) -> None:
    shown.rows(0, 200)
    (frame,) = shown.page.history(2.0)
    assert 39 <= len(frame) <= 40
    assert np.diff(frame.time_ns).min() > 0


def test_an_open_incident_is_shown_however_many_came_after_it(shown: Shown) -> None:
    shown.incident(OPEN, WARNING, "old")
    for number in range(RECENT + 5):
        made = scenes.incident(name=f"n{number}", state=CLOSED)
        shown.records.append([replace(made, time_ns=START_NS + 10 + number)])
    shown.page.note_records()
    assert "old" in {incident.id for incident in shown.page.records().incidents}


def test_records_are_read_again_only_when_some_were_added(shown: Shown) -> None:
    first = shown.page.records()
    shown.records.append([an_event(1)])
    assert shown.page.records() is first
    shown.page.note_records()
    after = shown.page.records()
    assert after.version > first.version
    assert [event.id for event in after.events] == ["e1"]


def test_what_the_record_file_has_not_taken_yet_is_shown_in_its_newest_state_and_no_more_of_it_than_fits(
    shown: Shown,
) -> None:
    shown.rows(0, 40)
    shown.incident(OPEN, CRITICAL)
    made = scenes.incident(Cause.SUPPLY_SAG, name="i1", state=CLOSED)
    closed = replace(made, time_ns=START_NS + 2, opened_ns=START_NS, summary="i1 closed")
    early = scenes.incident(Cause.GPU_LOST, name="i2", state=OPEN, severity=WARNING)
    events = [an_event(number) for number in range(RECENT + 5)]
    shown.page.note_records([replace(early, time_ns=START_NS + 1, opened_ns=START_NS, summary="i2"), closed, *events])
    records = shown.page.records()
    assert {incident.id: incident.state for incident in records.incidents} == {made.id: CLOSED, early.id: OPEN}
    assert [event.id for event in records.events] == [event.id for event in reversed(events)][:RECENT]
    assert shown.health() == (Health.DEGRADED, "i2")


def test_records_that_cannot_be_written_are_a_reason_of_the_health(shown: Shown) -> None:
    shown.rows(0, 40)
    shown.page.trouble = "/data/a.jsonl: No space left on device"
    unwritten = "records cannot be written: /data/a.jsonl: No space left on device"
    assert shown.health() == (Health.DEGRADED, unwritten)
    shown.incident(OPEN, CRITICAL)
    assert shown.health() == (Health.UNHEALTHY, f"i1 open; {unwritten}")
