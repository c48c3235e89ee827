"""State of the fleet's judge as bytes, and back."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter

from analytics.fleet.already_explained import NodeReports
from analytics.fleet.judge import FleetJudge, FleetSettings
from analytics.fleet.shared_faults import CommonMode
from analytics.incidents.book import IncidentBook
from analytics.shards.packing import archive, opened
from analytics.shards.panel import pack_panel, unpack_panel
from physics.wiring import Wiring
from telemetry.entities import Entity, EntityKind
from telemetry.json_text import json_text
from telemetry.records import Finding

VERSION = 3
_COMMON, _ENTITIES = TypeAdapter(CommonMode), TypeAdapter(tuple[Entity, ...])
_STANDING = TypeAdapter(dict[str, tuple[str, Finding]])
_FOLDED = TypeAdapter(dict[str, Finding])
_WIRINGS = TypeAdapter(dict[str, Wiring])


def pack_judge(judge: FleetJudge) -> bytes:
    """Return a judge's state as bytes."""
    state = judge.state
    arrays: dict[str, npt.NDArray[Any]] = {"panel": np.frombuffer(pack_panel(judge.panel, state.panel), dtype=np.uint8)}
    for kind, last_seen_ns in state.members.last_seen_ns.items():
        arrays[f"heard {kind}"] = last_seen_ns
    for kind, held in state.held.items():
        arrays[f"held {kind}"], arrays[f"told {kind}"] = held.values, held.reported_ns
    head = {
        "version": VERSION,
        "until_ns": state.until_ns,
        "entities": [asdict(entity) for entity in state.members.every],
        "common": _COMMON.dump_python(state.common, mode="json"),
        "nodes_told": state.reported.snapshot(),
        "simulated": sorted(state.simulated),
        "with_rails": sorted(state.with_rails),
        "wirings": _WIRINGS.dump_python(state.wirings, mode="json"),
        "standing": _STANDING.dump_python(state.standing, mode="json"),
        "folded": _FOLDED.dump_python(state.folded.held, mode="json"),
        "book": json_text(state.book.snapshot()),
    }
    return archive(head, arrays)


def unpack_judge(settings: FleetSettings, blob: bytes) -> tuple[FleetJudge, str]:
    """Return a judge that continues from the packed one, and why its detectors do not, empty where they do.

    Where the detectors have other limits now, they start again; members and open incidents go on, and what was active
    must be reported again as after any restart of detectors.

    Raises
    ------
    ValueError
        The state is damaged, or of another version.
    """
    head, arrays = opened(blob)
    if head.get("version") != VERSION:
        raise ValueError(f"state of the fleet: version {head.get('version')!r}, expected {VERSION}")
    judge = FleetJudge(settings)
    state = judge.state
    last_seen_ns = {kind: arrays[f"heard {kind}"] for kind in EntityKind if f"heard {kind}" in arrays}
    state.members.restore(_ENTITIES.validate_python(_entities(head)), last_seen_ns)
    state.wirings = _WIRINGS.validate_python(head.get("wirings", {}))  # states of before have none
    judge.settle()
    specs = state.members.specs()
    restart_reason = ""
    try:
        state.panel = unpack_panel(judge.panel, specs, arrays["panel"].tobytes())
    except ValueError as err:
        restart_reason = str(err)
    for spec in specs:
        held = state.held[spec.kind]
        held.values[:], held.reported_ns[:] = arrays[f"held {spec.kind}"], arrays[f"told {spec.kind}"]
    state.common = _COMMON.validate_python(head["common"])
    state.reported = NodeReports.restore(head["nodes_told"])
    state.standing = _STANDING.validate_python({} if restart_reason else head["standing"])
    state.folded.held = _FOLDED.validate_python({} if restart_reason else head["folded"])
    state.simulated = frozenset(head["simulated"])
    state.with_rails = frozenset(head.get("with_rails", ()))  # states of before have none
    state.until_ns = head["until_ns"]
    state.book = IncidentBook.restore(
        json.loads(head["book"]), now_ns=state.until_ns, settings=settings.book, detectors_go_on=not restart_reason
    )
    return judge, restart_reason


def _entities(head: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {**fields, "kind": EntityKind(fields["kind"]), "tags": tuple(tuple(tag) for tag in fields["tags"])}
        for fields in head["entities"]
    ]
