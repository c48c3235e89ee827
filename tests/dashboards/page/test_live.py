import json
from dataclasses import replace
from typing import Any, Never

import pytest

from dashboards.page.live import TURNS_PER_STATUS, hello, turn
from dashboards.page.record_texts import RecordTexts
from telemetry.clock import NS_PER_S
from telemetry.entities import NOMINAL_SOURCE_TAG, NOMINAL_TAG, Topology
from telemetry.errors import TransientError
from tests.dashboards.fakes import SUPPLIES, TOPOLOGY, FakeSource, Story, xid_event
from tests.dashboards.page.clocks import START_NS, StandingClock

TURN_S = 0.1


def read(message: bytes) -> tuple[str, dict[str, Any]]:
    event, data, rest = message.decode().split("\n", 2)
    assert rest == "\n"
    return event.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def points(tables: list[dict[str, Any]]) -> dict[str, list[int]]:
    times: dict[str, list[int]] = {}
    for table in tables:
        times.setdefault(table["table"], []).extend(table["time_ms"])
    return times


def _away(*_: object) -> Never:
    raise TransientError("the ring of the sampler is not there")


class Watch:
    """One watcher of a node 58 s after its start."""

    def __init__(self, story: Story | None = None) -> None:
        self.clock = StandingClock(START_NS + 58 * NS_PER_S)
        self.source = FakeSource(clock=self.clock, started_ns=START_NS, story=story or Story())
        self.texts = RecordTexts()
        self.number = 0
        first, self.cursor = hello(self.source, self.clock, self.texts, 600)
        self.event, self.hello = read(first)

    def turns(self, count: int) -> list[tuple[str, dict[str, Any]]]:
        messages = []
        for _ in range(count):
            self.clock.advance(TURN_S)
            messages += [read(part) for part in turn(self.source, self.clock, self.texts, self.cursor, self.number)]
            self.number += 1
        return messages


def test_the_first_message_has_all_a_page_needs() -> None:
    watch = Watch()
    assert watch.event == "hello"
    assert watch.hello["status"]["node"] == "box-17"
    assert watch.hello["labels"]["modes"]["enforce"]
    assert watch.hello["stale_after_s"] == 3.0
    assert len(watch.hello["entities"]) == 8
    assert [bus["name"] for bus in watch.hello["wiring"]["buses"]] == ["12 V"]
    assert {table["table"] for table in watch.hello["tables"]} == {"supply", "gpu_fast", "gpu_slow", "host", "agent"}


def test_history_and_live_rows_join_without_a_gap_or_a_repeat() -> None:
    watch = Watch()
    times = points(watch.hello["tables"])
    for event, data in watch.turns(40):
        if event == "samples":
            for table, more in points(data["tables"]).items():
                times[table] += more
    for table, period_ms in (("supply", 50), ("gpu_fast", 50), ("gpu_slow", 1000)):
        steps = {after - before for before, after in zip(times[table], times[table][1:], strict=False)}
        assert steps == {period_ms}, table


def test_samples_come_five_times_a_second_even_when_there_are_none() -> None:
    watch = Watch(Story(silent_s=58))
    watch.turns(20)
    silent = [data for event, data in watch.turns(10) if event == "samples"]
    assert len(silent) == 5
    assert all(data["tables"] == [] for data in silent)


def test_records_come_in_the_very_turn_they_change_and_only_then() -> None:
    watch = Watch()
    assert [event for event, _ in watch.turns(19) if event == "records"] == []
    ((event, data), *_) = watch.turns(2)
    assert event == "records"
    assert data["incidents"][0]["id"] == "i-1"
    watch.source.extra_events.append(xid_event(watch.clock.now_ns))
    assert [event for event, _ in watch.turns(3)].count("records") == 1


def test_status_comes_every_second_and_reports_of_silence() -> None:
    watch = Watch(Story(silent_s=58))
    statuses = [data["status"] for event, data in watch.turns(TURNS_PER_STATUS * 5) if event == "status"]
    assert len(statuses) == 5
    assert statuses[0]["health"] == "healthy"
    assert statuses[-1]["health"] == "unknown"


def test_old_history_is_thinned_to_seconds_and_recent_is_not() -> None:
    clock = StandingClock(START_NS + 600 * NS_PER_S)
    first, _ = hello(FakeSource(clock=clock, started_ns=START_NS), clock, RecordTexts(), 600)
    old, recent = (table for table in read(first)[1]["tables"] if table["table"] == "supply")
    assert len(old["time_ms"]) <= 2 * 481
    assert len(recent["time_ms"]) == 120 * 20


def test_no_number_on_the_wire_is_not_a_number() -> None:
    watch = Watch(Story(lost_gpu3_s=58.2, incident_s=58.5))
    messages = watch.turns(20)
    rows = [table for event, data in messages if event == "samples" for table in data["tables"]]
    lost = [series for table in rows for series in table["series"] if series["signal"] == "power_w"]
    assert lost[-1]["values"][-1] is None
    assert lost[0]["values"][-1] is not None
    evidence = next(data for event, data in messages if event == "records")["incidents"][0]["findings"][0]["evidence"]
    assert evidence[-1]["value"] is None


def test_a_source_that_is_away_raises_its_own_error() -> None:
    watch = Watch()
    watch.source.failing = True
    with pytest.raises(TransientError):
        watch.turns(1)


def test_records_of_a_turn_that_failed_come_with_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch()
    watch.turns(TURNS_PER_STATUS)  # samples and status are due in the next one
    new = xid_event(START_NS + 1)
    watch.source.extra_events = [new]
    with monkeypatch.context() as away:
        away.setattr(watch.source, "updates", _away)
        with pytest.raises(TransientError):
            watch.turns(1)
    changes = [data for event, data in watch.turns(1) if event == "records"]
    assert [event["id"] for event in changes[0]["events"]] == [new.id]


def test_a_table_that_gets_its_first_row_later_is_followed_from_there() -> None:
    clock = StandingClock(START_NS + 100_000_000)
    source = FakeSource(clock=clock, started_ns=START_NS)
    first, cursor = hello(source, clock, RecordTexts(), 600)
    times = points(read(first)[1]["tables"])
    assert set(times) == {"supply", "gpu_fast"}
    for number in range(60):
        clock.advance(TURN_S)
        for event, data in map(read, turn(source, clock, RecordTexts(), cursor, number)):
            if event == "samples":
                for table, more in points(data["tables"]).items():
                    times.setdefault(table, []).extend(more)
    assert set(times) == {"supply", "gpu_fast", "gpu_slow", "host", "agent"}
    assert [ms - START_NS // 1_000_000 for ms in times["gpu_slow"]] == [1000, 2000, 3000, 4000, 5000]


def test_a_change_carries_the_records_that_changed_and_the_ids_that_are_not_recent_any_more() -> None:
    watch = Watch()
    watch.source.extra_events = [xid_event(START_NS + number) for number in (1, 2)]
    first, second = (event.id for event in watch.source.extra_events)
    watch.turns(25)
    watch.source.extra_events = [watch.source.extra_events[1], *(xid_event(START_NS + number) for number in (3, 4))]
    ((_, data),) = [one for one in watch.turns(3) if one[0] == "records"]
    assert data["incidents"] == []
    assert len(data["events"]) == 2
    assert second not in {event["id"] for event in data["events"]}
    assert data["gone"] == {"incidents": [], "decisions": [], "actions": [], "outcomes": [], "events": [first]}


def test_a_record_is_encoded_once_however_many_watch() -> None:
    clock = StandingClock(START_NS + 70 * NS_PER_S)
    source, texts = FakeSource(clock=clock, started_ns=START_NS), RecordTexts()
    before = texts.state(source.records())
    source.extra_events.append(xid_event(clock.now_ns))
    after = texts.state(source.records())
    assert before.kinds["events"] != after.kinds["events"]
    for kind in ("decisions", "actions"):
        for key, text in before.kinds[kind].items():
            assert after.kinds[kind][key] is text


def test_entities_are_sent_again_when_a_tag_of_theirs_changed_and_not_otherwise() -> None:
    watch = Watch()
    assert "entities" not in [event for event, _ in watch.turns(TURNS_PER_STATUS)]
    named = replace(SUPPLIES[0], tags=((NOMINAL_TAG, "12"), (NOMINAL_SOURCE_TAG, "readings")))
    changed = Topology(entities=tuple(named if one.id == named.id else one for one in TOPOLOGY.entities))
    watch.source.topology = lambda: changed  # type: ignore[method-assign]
    (sent,) = [data for event, data in watch.turns(TURNS_PER_STATUS) if event == "entities"]
    (supply,) = [entity for entity in sent["entities"] if entity["id"] == named.id]
    assert supply["tags"] == {"nominal_v": "12", "nominal_from": "readings"}
    assert "entities" not in [event for event, _ in watch.turns(TURNS_PER_STATUS)]


def test_the_wiring_is_sent_again_with_the_entities() -> None:
    watch = Watch()
    changed = Topology(entities=tuple(one for one in TOPOLOGY.entities if one.id != SUPPLIES[1].id))
    watch.source.topology = lambda: changed  # type: ignore[method-assign]
    (sent,) = [data for event, data in watch.turns(TURNS_PER_STATUS) if event == "entities"]
    assert [supply["name"] for supply in sent["wiring"]["supplies"]] == ["psu0"]
