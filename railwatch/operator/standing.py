"""Standing verdict of a node: as its guard writes it each minute, or of the end of a recording; as text and as JSON."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from agent.guard.standing import verdict_of
from analytics.detectors.gpu_margins import GpuMargins
from analytics.detectors.panel import Panel
from analytics.detectors.supply_margins import SupplyMargins
from analytics.detectors.supply_margins_limits import SupplyMarginsLimits
from analytics.supply.standing import BusStanding, LinkStanding, OffDraw, StandingVerdict
from physics.link_loads import LinkKind
from physics.wiring import Wiring
from telemetry.clock import NS_PER_S, iso_utc
from telemetry.entities import Topology, label_list, label_of
from telemetry.frames import Frame

_VERDICT = TypeAdapter(StandingVerdict)
# heuristic: a guard that missed three verdicts is not judging; its last one is no picture of now.
_OLD_NS = 180 * NS_PER_S
# Loads that are listed, the nearest to their limits first.
_NEAREST = 3
_SHARES_A_LINE = 2
# As in the drawing of the wiring, where such lines are marked.
OVER = ", over its rating"


def read_standing(path: Path, now_ns: int) -> StandingVerdict | None:
    """Return the verdict in a file of the guard; None where there is none yet, or it is damaged or old."""
    try:
        is_old = now_ns - path.stat().st_mtime_ns > _OLD_NS
        return None if is_old else _VERDICT.validate_json(path.read_bytes())
    except (OSError, ValueError):
        return None


def standing_of(
    frames: Sequence[Frame], topology: Topology, wiring: Wiring | None, *, rated_w: float | None = None
) -> StandingVerdict | None:
    """Return the verdict at the end of frames in order of time; None where they are too short for one."""
    own = [frame for frame in frames if len(frame) and not frame.spec.is_late]
    if not own:
        return None
    limits = SupplyMarginsLimits()
    # The first verdict is of less than a minute, the next one of a whole one, which the row after it ends.
    judged_s = limits.first_after_s + limits.every_s + 1.0
    start_ns = max(int(frame.time_ns[-1]) for frame in own) - round(judged_s * NS_PER_S)
    own = [frame for frame in own if int(frame.time_ns[0]) >= start_ns]
    detectors = (SupplyMargins(limits=limits, rated_w=rated_w, wiring=wiring), GpuMargins(limits=limits, wiring=wiring))
    panel = Panel(detectors=detectors, event_detectors=())
    state = panel.start(tuple({frame.spec.name: frame.spec for frame in own}.values()))
    for _, second in groupby(own, key=lambda frame: int(frame.time_ns[0]) // NS_PER_S):
        state, _ = panel.step(state, [*second], topology)
    verdict = verdict_of(state.detectors)
    return None if verdict == StandingVerdict() else verdict


def standing_fields(verdict: StandingVerdict | None) -> Iterator[dict[str, Any]]:
    """Yield the verdict as one JSON object; nothing where there is none."""
    if verdict is not None:
        yield {"kind": "verdict", **asdict(verdict)}


def standing_lines(verdict: StandingVerdict | None) -> Iterator[str]:
    """Yield the verdict as lines: voltages and shares of each bus, nearest loads, what is off and draws, unknowns."""
    if verdict is None:
        return
    supplies = verdict.supplies
    found = [
        *(line for bus in (supplies.buses if supplies else ()) for line in _bus_lines(bus)),
        *_nearest(verdict.links),
        *off_lines(verdict),
        *(f"  not known: {one}" for one in (supplies.unknown if supplies else ())),
    ]
    of = supplies or verdict.gpus
    if found and of:
        span = f"{of.span_s} s until {iso_utc(of.time_ns)[11:19]} UTC"
        yield from ("", f"standing verdict, {span}: now, in load steps, worst one lost", *found)


def _bus_lines(bus: BusStanding) -> Iterator[str]:
    limit = "" if bus.limit_v is None else f", limit {bus.limit_v:.2f} V"
    yield f"  bus {bus.name}: {bus.lowest_v:.2f} V, steps {bus.step_v:.2f} V{limit}"
    if bus.loss_v is not None and bus.loss_step_v is not None:
        low = "" if bus.limit_v is None or bus.loss_step_v >= bus.limit_v else ", below the limit"
        yield f"    {bus.without} {bus.loss_v:.2f} V, steps {bus.loss_step_v:.2f} V{low}"
    shares = [
        f"{label_of(one.name)} {one.share:.0%} ({one.power_w:.0f} W, steps {one.step_w:.0f} W)" for one in bus.supplies
    ]
    for start in range(0, len(shares), _SHARES_A_LINE):
        yield f"    {'  '.join(shares[start : start + _SHARES_A_LINE])}"


def _nearest(links: Iterable[LinkStanding]) -> Iterator[str]:
    seen: set[tuple[str, ...]] = set()
    for link in links:
        # Equal parts are about equally loaded: of those within their limits the first stands for its kind.
        key = (link.part, link.name) if link.is_over else (link.kind, link.basis)
        if key in seen or len(seen) == _NEAREST:
            continue
        seen.add(key)
        yield f"  {_link_text(link)}"
        if link.is_over and link.mend_w > 0.0:
            yield f"    {math.ceil(link.mend_w)} W less mends it"


def _link_text(link: LinkStanding) -> str:
    part = f"{link.kind} {link.part}" if link.kind in (LinkKind.FEED, LinkKind.SHELF) else label_of(link.part)
    name = "" if link.name == link.part else f" {'inlet ' if link.kind is LinkKind.INLET else ''}{link.name}"
    digits = 0 if link.load >= 100.0 else 1
    least, without = "at least " if link.at_least else "", f"{link.without}: " if link.without else ""
    load = f"{least}{link.load:.{digits}f} of {link.rating:g} {link.unit}"
    text = f"{without}{part}{name} {load}{' in load steps' if link.basis == 'step peaks' else ''}"
    # Names of parts stay as they are.
    has_title = bool(without) or part.startswith((LinkKind.FEED.value, LinkKind.SHELF.value))
    return f"{text[0].upper() if has_title else text[0]}{text[1:]}{OVER if link.is_over else ''}"


def off_lines(verdict: StandingVerdict) -> Iterator[str]:
    """Yield what is drawn while supplies are off or carry nothing, and while no GPU draws any power."""
    supplies = verdict.supplies
    if supplies is None:
        return
    for one in supplies.off:
        yield from (f"  {text}" for text in _off_texts(one))
    nothing_on = not supplies.buses or (verdict.gpus is not None and verdict.gpus.are_off)
    if nothing_on and supplies.input_w is not None:
        out = "" if supplies.output_w is None else f", {supplies.output_w:.0f} W of it delivered"
        what = "the supplies" if not supplies.buses else "the GPUs"
        yield f"  draw while {what} are off: {supplies.input_w:.0f} W{out}"


def _off_texts(one: OffDraw) -> Iterator[str]:
    name = label_list([label_of(one.supply)])
    if one.input_w is not None:
        yield f"{name} draws {one.input_w:.0f} W while it {'is off' if one.is_off else 'carries nothing'}"
    if one.leak_a is not None:
        yield f"{name} is off, and {abs(one.leak_a):.1f} A flow through its output"
