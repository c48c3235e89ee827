"""The path of /api/v1 over hours, days and a year: statistics of every step, from the ring or the store."""

import threading
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Response
from pydantic import BaseModel

from dashboards.page.series_tables import numbers
from dashboards.page.source import PageSource
from telemetry.clock import NS_PER_MS, NS_PER_S, Clock
from telemetry.entities import EntityKind
from telemetry.json_text import json_text
from telemetry.rollup import decimals_of, statistics_of
from telemetry.series import STEPS_S, step_for
from telemetry.signals import signal, signals_of

LONGEST_S = 400 * 86_400.0
# A reply has at most this many steps: longer ones belong in a recording.
MOST_STEPS = 5000
# heuristic: steps times signals of one reply. With eight GPUs that is at most 1.2 million numbers, which take some
# 100 MB while they are encoded.
MOST_CELLS = 50_000
# heuristic: one range is read at a time, so that memory is bound; a request waits this long for those before it.
TURN_S = 30.0
_STEPS_TEXT = ", ".join(map(str, STEPS_S))


class SeriesHistory(BaseModel):
    """Statistics of one signal of one entity, null where it has no value.

    A gauge has ``mean``, ``min`` and ``max``; a counter ``last``; flags ``last`` and ``any``, the bits that were set.
    """

    entity: str
    signal: str
    unit: str
    statistics: dict[str, list[float | None]]


class HistoryReply(BaseModel):
    """Statistics by step. A step without samples is left out; `time_ms` are the starts of the others."""

    now_ms: int
    step_s: int
    kind: EntityKind
    time_ms: list[int]
    series: list[SeriesHistory]


def history_router(source: PageSource, clock: Clock) -> APIRouter:
    """Build the path over one source."""
    router = APIRouter(prefix="/api/v1", tags=["node"])
    described: dict[int | str, dict[str, Any]] = {
        200: {"model": HistoryReply},
        503: {"description": "The samples cannot be read now, or other reads of history take too long."},
    }
    one_read = threading.Lock()

    @router.get("/history", summary="Mean, lowest and highest value of every step", responses=described)
    def history(
        kind: Annotated[EntityKind, Query(description="Which kind of entity.")],
        signal: Annotated[
            list[str],
            Query(description=f"Signals of that kind, each counts once; at most {MOST_CELLS} steps times signals."),
        ],
        seconds: Annotated[float, Query(gt=0, le=LONGEST_S, description="How far back.")] = 3600.0,
        step_s: Annotated[
            int | None,
            Query(
                description=f"Length of a step: one of {_STEPS_TEXT}; chosen by the length of the range if left out."
            ),
        ] = None,
    ) -> Response:
        known = {item.name for item in signals_of(kind)}
        strangers = [name for name in signal if name not in known]
        if strangers:
            raise HTTPException(422, f"signal: {', '.join(strangers)}; expected one of {', '.join(sorted(known))}")
        signals = tuple(dict.fromkeys(signal))
        span_ns = round(seconds * NS_PER_S)
        step_ns = _checked_step_ns(span_ns, step_s, len(signals))
        if not one_read.acquire(timeout=TURN_S):
            raise HTTPException(503, f"other reads of history took longer than {TURN_S:g} s; try again later")
        try:
            reply = _reply(source, kind, signals, now_ns=clock.utc_ns(), span_ns=span_ns, step_ns=step_ns)
            content = json_text(reply)
        finally:
            one_read.release()
        return Response(content, media_type="application/json")

    return router


def _checked_step_ns(span_ns: int, step_s: int | None, n_signals: int) -> int:
    """Return the length of a step; refuse one that no store keeps rollups for, or a reply that is too large."""
    if step_s is not None and step_s not in STEPS_S:
        raise HTTPException(422, f"step_s: got {step_s}; expected one of {_STEPS_TEXT}")
    step_ns = step_for(span_ns) if step_s is None else step_s * NS_PER_S
    if span_ns > MOST_STEPS * step_ns:
        least_s = step_for(span_ns, MOST_STEPS) // NS_PER_S
        raise HTTPException(422, f"step_s: got {step_s} s; expected {least_s} s or more")
    steps = -(-span_ns // step_ns)
    if steps * n_signals > MOST_CELLS:
        most = MOST_CELLS // steps
        raise HTTPException(
            422, f"signal: got {n_signals} over {steps} steps; expected {most} or fewer, or longer steps"
        )
    return step_ns


def _reply(
    source: PageSource, kind: EntityKind, signals: tuple[str, ...], *, now_ns: int, span_ns: int, step_ns: int
) -> dict[str, object]:
    frame = source.series(kind, signals, start_ns=now_ns - span_ns, stop_ns=now_ns, step_ns=step_ns)
    series = []
    for index, entity in enumerate(frame.spec.entities):
        for name in signals:
            found = statistics_of(kind, name)
            columns = {one: f"{name}_{one}" for one in found if one != "last" or "mean" not in found}
            statistics = {
                one: numbers(frame.signal(column)[:, index], decimals_of(kind, column))
                for one, column in columns.items()
            }
            unit = signal(kind, name).unit
            series.append({"entity": entity.id, "signal": name, "unit": unit, "statistics": statistics})
    return {
        "now_ms": now_ns // NS_PER_MS,
        "step_s": step_ns // NS_PER_S,
        "kind": str(kind),
        "time_ms": (frame.time_ns // NS_PER_MS).tolist(),
        "series": series,
    }
