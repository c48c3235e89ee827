"""The read side of /api/v1: the node, its series and its records, described in OpenAPI."""

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Response
from fastapi.responses import JSONResponse, StreamingResponse

from dashboards.page.live import entities_json, status_json, stream, with_freshness
from dashboards.page.record_texts import RecordTexts, array_of
from dashboards.page.series_tables import NS_PER_MS, table_json, table_of
from dashboards.page.shapes import (
    ActionShape,
    DecisionShape,
    EntityShape,
    EventShape,
    HealthReply,
    IncidentShape,
    IncidentStory,
    SeriesReply,
)
from dashboards.page.source import NodeStatus, PageSource
from dashboards.page.wiring_map import WiringMap
from telemetry.clock import Clock
from telemetry.entities import EntityKind
from telemetry.json_text import json_text
from telemetry.records import IN_FORCE, IncidentState, Verdict
from telemetry.signals import signals_of

HISTORY_S = 600.0
LONGEST_S = 86_400.0
FINEST_S = 0.001
Watchers = asyncio.Semaphore

Limit = Annotated[int, Query(ge=1, le=1000, description="At most so many, newest first.")]


def api_router(source: PageSource, clock: Clock, closing: asyncio.Event, watchers: Watchers) -> APIRouter:
    """Build every path of the read side over one source."""
    router = APIRouter(prefix="/api/v1", tags=["node"], default_response_class=JSONResponse)
    texts = RecordTexts()
    _node_paths(router, source, clock)
    _series_path(router, source, clock)
    _record_paths(router, source, texts)
    _live_path(router, source, clock, texts, closing=closing, watchers=watchers)
    return router


def _reply(shape: Any) -> dict[int | str, dict[str, Any]]:
    """Describe what a path answers; the answer itself is written by hand, once, with null for what is not finite."""
    return {200: {"model": shape}, 503: {"description": "The node cannot be read now."}}


def _answer(data: Any) -> Response:
    return Response(json_text(data), media_type="application/json")


def _node_paths(router: APIRouter, source: PageSource, clock: Clock) -> None:
    @router.get(
        "/status", summary="The node in one look: modes, store, sampler, collectors", responses=_reply(NodeStatus)
    )
    def status() -> Response:
        return _answer(status_json(source.status(), clock.utc_ns()))

    @router.get("/health", summary="Healthy, degraded, unhealthy or unknown, and why", responses=_reply(HealthReply))
    def health() -> Response:
        now = with_freshness(source.status(), clock.utc_ns())
        still_open = [item for item in source.records().incidents if item.state is not IncidentState.CLOSED]
        reply = {
            "health": str(now.health),
            "reason": now.health_reason,
            "last_sample_age_s": now.sampler.age_s,
            "open_incidents": len(still_open),
        }
        return _answer(reply)

    @router.get("/entities", summary="What has signals, and who feeds whom", responses=_reply(list[EntityShape]))
    def entities() -> Response:
        return _answer(entities_json(source.topology()))

    @router.get(
        "/wiring",
        summary="Which supply feeds which GPU through which plug",
        description="Live values of supplies and GPUs are those of the entities that it names.",
        responses=_reply(WiringMap),
    )
    def wiring() -> Response:
        return _answer(asdict(source.wiring()))


def _series_path(router: APIRouter, source: PageSource, clock: Clock) -> None:
    @router.get("/series", summary="Samples as columns", responses=_reply(SeriesReply))
    def series(
        kind: Annotated[EntityKind, Query(description="Which kind of entity.")],
        signal: Annotated[list[str], Query(description="One or more signals of that kind.")],
        entity: Annotated[list[str] | None, Query(description="Entity ids; all of the kind where left out.")] = None,
        seconds: Annotated[float, Query(gt=0, le=LONGEST_S, description="How far back.")] = 60.0,
        bucket_s: Annotated[
            float, Query(ge=FINEST_S, le=3600, description="Keep the lowest and the highest sample of every so long.")
        ] = FINEST_S,
    ) -> Response:
        known = {item.name for item in signals_of(kind)}
        strangers = [name for name in signal if name not in known]
        if strangers:
            raise HTTPException(
                422, f"signal: {', '.join(strangers)}; expected one of {', '.join(sorted(known)) or 'none'}"
            )
        tables = [
            table_of(frame, bucket_s=bucket_s, signals=signal, entities=entity or ())
            for frame in source.history(seconds)
            if frame.spec.kind is kind
        ]
        reply = {
            "now_ms": clock.utc_ns() // NS_PER_MS,
            "tables": [table_json(table) for table in tables if table is not None],
        }
        return _answer(reply)


def _record_paths(router: APIRouter, source: PageSource, texts: RecordTexts) -> None:
    def newest(kind: str, chosen: Callable[[Any], bool], limit: int) -> Response:
        records = source.records()
        known = texts.state(records).kinds[kind]
        wanted = (known[one.id] for one in getattr(records, kind) if chosen(one))
        return Response(array_of(islice(wanted, limit)), media_type="application/json")

    @router.get("/incidents", summary="Incidents, newest first", responses=_reply(list[IncidentShape]))
    def incidents(
        state: Annotated[IncidentState | None, Query(description="Only those in this state.")] = None,
        limit: Limit = 100,
    ) -> Response:
        return newest("incidents", lambda item: state in (None, item.state), limit)

    @router.get(
        "/incidents/{incident_id:path}", summary="One incident with all that followed", responses=_reply(IncidentStory)
    )
    def incident(incident_id: str) -> Response:
        records = source.records()
        known = texts.state(records).kinds
        found = known["incidents"].get(incident_id)
        if found is None:
            raise HTTPException(404, f"incident {incident_id} is not among the recent ones")
        parts = [f'"incident":{found}']
        for kind in ("decisions", "actions", "outcomes"):
            own = (known[kind][item.id] for item in getattr(records, kind) if item.incident_id == incident_id)
            parts.append(f'"{kind}":{array_of(own)}')
        return Response(f"{{{','.join(parts)}}}", media_type="application/json")

    @router.get("/actions", summary="Actions, newest first", responses=_reply(list[ActionShape]))
    def actions(
        in_force: Annotated[bool | None, Query(description="Only those in force, or only those that are not.")] = None,
        limit: Limit = 100,
    ) -> Response:
        return newest("actions", lambda item: in_force in (None, item.state in IN_FORCE), limit)

    @router.get(
        "/approvals",
        summary="Decisions that wait for a person, newest first",
        responses=_reply(list[DecisionShape]),
    )
    def approvals(limit: Limit = 100) -> Response:
        return newest("decisions", lambda item: item.verdict is Verdict.PENDING, limit)

    @router.get("/events", summary="Events, newest first", responses=_reply(list[EventShape]))
    def events(limit: Limit = 100) -> Response:
        return newest("events", lambda _: True, limit)


def _live_path(
    router: APIRouter,
    source: PageSource,
    clock: Clock,
    texts: RecordTexts,
    *,
    closing: asyncio.Event,
    watchers: Watchers,
) -> None:
    @router.get(
        "/live",
        summary="Server-sent events: hello, samples, records, status, entities, away",
        description=(
            "`hello` carries status, entities, wiring, labels, records and history; `samples` comes five times a "
            "second with the rows since the last one, also when there are none; `records` at once when one changed, "
            "with those that changed and in `gone` the ids that are not recent any more; `status` every second; "
            "`entities`, with the wiring, when they, their tags or what feeds them changed; `away` with the problem "
            "while the node cannot be read. Data is JSON, times are `now_ms`."
        ),
        responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}, 503: {}},
        response_class=StreamingResponse,
    )
    async def live(
        history_s: Annotated[float, Query(ge=0, le=LONGEST_S, description="How much history comes first.")] = HISTORY_S,
    ) -> StreamingResponse:
        if watchers.locked():
            raise HTTPException(503, "too many live watchers", headers={"Retry-After": "10"})

        async def counted() -> Any:
            async with watchers:
                async for part in stream(source, clock, texts, closing, history_s=history_s):
                    yield part

        return StreamingResponse(
            counted(), media_type="text/event-stream", headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        )
