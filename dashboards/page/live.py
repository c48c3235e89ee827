"""The live stream: server-sent events of one watcher, from its history to what happens now."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from dashboards.page.labels import labels
from dashboards.page.record_texts import RecordState, RecordTexts
from dashboards.page.series_tables import NS_PER_MS, PAGE_SIGNALS, Table, table_json, table_of, whole_buckets
from dashboards.page.source import NodeStatus, PageSource
from telemetry.clock import NS_PER_S, Clock
from telemetry.entities import Topology
from telemetry.errors import RailwatchError
from telemetry.frames import Frame
from telemetry.json_text import json_text
from telemetry.records import Health
from telemetry.signals import signals_of

# A person sees a record within one turn and a smooth line at two turns a frame.
TURN_S = 0.1
TURNS_PER_SAMPLES = 2
TURNS_PER_STATUS = 10

# How far back a table that was not there before is read: two turns of status, so that nothing is missed.
NEWCOMER_S = 2.0

# Two minutes at 0.1 s are 2400 points a line at most, more than a screen has columns; older ones come by the second.
LIVE_BUCKET_S = 0.1
OLD_BUCKET_S = 1.0
RECENT_S = 120.0

# Three times the slowest sampling group's period of 1 s: one missed read is a hiccup, three are a silence.
STALE_AFTER_S = 3.0


def with_freshness(status: NodeStatus, now_ns: int) -> NodeStatus:
    """Return the status with the sampler's age filled in; health is unknown where no sample is fresh enough."""
    last_ns = status.sampler.last_sample_ns
    if last_ns is None:
        return replace(status, health=Health.UNKNOWN, health_reason="no samples yet")
    age_s = max(0.0, (now_ns - last_ns) / NS_PER_S)
    aged = replace(status, sampler=replace(status.sampler, age_s=round(age_s, 3)))
    if age_s <= STALE_AFTER_S:
        return aged
    return replace(aged, health=Health.UNKNOWN, health_reason=f"no new samples for {age_s:.0f} s")


@dataclass(slots=True)
class Cursor:
    """Position of one watcher: the newest row of each table, and the records and the topology it has."""

    since_ns: dict[str, int]
    records: RecordState
    topology: Topology


def message(event: str, data: Mapping[str, Any] | str) -> bytes:
    """Return one server-sent event; `data` is JSON text or an object for it."""
    return f"event: {event}\ndata: {data if isinstance(data, str) else json_text(data)}\n\n".encode()


def status_json(status: NodeStatus, now_ns: int) -> dict[str, Any]:
    """Return the status in the form of the page and the API."""
    return asdict(with_freshness(status, now_ns))


def entities_json(topology: Topology) -> list[dict[str, Any]]:
    """Return every entity with what feeds it and what it can measure."""
    return [
        {
            "id": entity.id,
            "kind": str(entity.kind),
            "key": entity.key,
            "name": entity.name,
            "label": entity.label,
            "tags": dict(entity.tags),
            "parents": [parent.id for parent in topology.parents(entity.id)],
            "signals": [
                {"name": item.name, "unit": item.unit, "meaning": item.meaning} for item in signals_of(entity.kind)
            ],
        }
        for entity in topology.entities
    ]


def hello(source: PageSource, clock: Clock, texts: RecordTexts, history_s: float) -> tuple[bytes, Cursor]:
    """Return the first message: everything the page needs to draw itself, and the cursor after it."""
    records = texts.state(source.records())
    topology = source.topology()
    status = source.status()
    frames = source.history(history_s)
    now_ns = clock.utc_ns()
    cursor = Cursor(since_ns={}, records=records, topology=topology)
    tables = _tables(_advance(frames, cursor, now_ns), now_ns)
    data = {
        "now_ms": now_ns // NS_PER_MS,
        "status": status_json(status, now_ns),
        "entities": entities_json(topology),
        "wiring": asdict(source.wiring()),
        "stale_after_s": STALE_AFTER_S,
        "labels": asdict(labels()),
        "tables": [table_json(table) for table in tables],
    }
    return message("hello", f'{json_text(data)[:-1]},"records":{records.to_json()}}}'), cursor


def turn(source: PageSource, clock: Clock, texts: RecordTexts, cursor: Cursor, number: int) -> list[bytes]:
    """Return what is new since the last turn; moves the cursor once everything is read.

    Raises
    ------
    RailwatchError
        The source is away. The cursor stays, so that the next turn brings what this one could not.
    """
    recent = source.records()
    records = texts.state(recent) if recent.version != cursor.records.version else None
    samples_due, status_due = number % TURNS_PER_SAMPLES == 0, number % TURNS_PER_STATUS == 0
    frames = [*source.updates(cursor.since_ns)] if samples_due else []
    if samples_due and status_due:  # a table may get its first row long after the watcher came
        frames += [frame for frame in source.history(NEWCOMER_S) if frame.spec.name not in cursor.since_ns]
    status = source.status() if status_due else None
    topology = source.topology() if status_due else cursor.topology
    now_ns = clock.utc_ns()
    messages = []
    if topology != cursor.topology:
        changed = {"entities": entities_json(topology), "wiring": asdict(source.wiring())}
        messages.append(message("entities", changed))
        cursor.topology = topology
    if records is not None:
        messages.append(message("records", records.changes_since(cursor.records)))
        cursor.records = records
    if samples_due:
        tables = [table_json(table) for table in _tables(_advance(frames, cursor, now_ns), now_ns)]
        messages.append(message("samples", {"now_ms": now_ns // NS_PER_MS, "tables": tables}))
    if status is not None:
        messages.append(message("status", {"now_ms": now_ns // NS_PER_MS, "status": status_json(status, now_ns)}))
    return messages


async def stream(
    source: PageSource, clock: Clock, texts: RecordTexts, closing: asyncio.Event, *, history_s: float
) -> AsyncIterator[bytes]:
    """Yield the messages of one watcher until the page closes; the source is read in a worker thread."""
    cursor: Cursor | None = None
    number = 0
    yield b"retry: 1000\n\n"
    while not closing.is_set():
        try:
            if cursor is None:
                first, cursor = await asyncio.to_thread(hello, source, clock, texts, history_s)
                yield first
            else:
                for part in await asyncio.to_thread(turn, source, clock, texts, cursor, number):
                    yield part
        except RailwatchError as err:
            yield message("away", {"now_ms": clock.utc_ns() // NS_PER_MS, "problem": str(err)})
            await pause(closing, 1.0)
        number += 1
        await pause(closing, TURN_S)


async def pause(closing: asyncio.Event, seconds: float) -> None:
    """Wait for so long, or until the page closes."""
    try:
        async with asyncio.timeout(seconds):
            await closing.wait()
    except TimeoutError:
        return


def _advance(frames: Sequence[Frame], cursor: Cursor, now_ns: int) -> list[Frame]:
    """Keep the rows whose buckets have ended, and move the cursor behind them."""
    ready = []
    for frame in frames:
        whole = whole_buckets(frame, now_ns=now_ns, bucket_ns=round(LIVE_BUCKET_S * NS_PER_S))
        if len(whole):
            cursor.since_ns[frame.spec.name] = int(whole.time_ns[-1])
            ready.append(whole)
        else:
            cursor.since_ns.setdefault(frame.spec.name, int(frame.time_ns[0]) - 1 if len(frame) else 0)
    return ready


def _tables(frames: Sequence[Frame], now_ns: int) -> list[Table]:
    """Return the page's columns: by the second where older than two minutes, finer after that."""
    recent_ns = now_ns - round(RECENT_S * NS_PER_S)
    tables = []
    for frame in frames:
        split = int(frame.time_ns.searchsorted(recent_ns))
        for part, bucket_s in ((frame.rows(0, split), OLD_BUCKET_S), (frame.rows(split, len(frame)), LIVE_BUCKET_S)):
            if len(part):
                table = table_of(part, bucket_s=bucket_s, signals=PAGE_SIGNALS.get(frame.spec.kind, ()))
                if table is not None:
                    tables.append(table)
    return tables
