"""Evidence in the samples around an incident: which signal moved first, what held the clocks, what to try."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analytics.clock_accounting import account_text, clock_account
from analytics.connectivity import Kinship
from analytics.connectivity.dither import MAX_STEP_MHZ, MIN_STEP_MHZ, pick_gpu, plan_dither
from analytics.connectivity.lagged import LagLink, lag_links, max_lag
from analytics.incidents.families import ELECTRICAL, family_of
from railwatch.operator.entity_names import EntityNames
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, TableSpec
from telemetry.records import Incident
from telemetry.series import merge_frames

# Periods on which the voltage of a supply is compared with the power of its GPUs.
_FAST_S, _SLOW_S = 0.1, 1.0
_MOST_LEADS, _MOST_LINES = 4, 4
# heuristic: weaker links explain less than a tenth of the variance.
_LEAST_CORRELATION = 0.3
_SEED = 1  # of the random shifts of the significance test: a recording always has the same result
# heuristic: a more probable cause needs no experiment.
_SURE = 0.9
_CLOCKS = (
    "power_w",
    "sm_clock_mhz",
    "max_sm_clock_mhz",
    "throttle_reasons",
    "power_brake_s",
    "thermal_violation_s",
    "hw_thermal_s",
    "sw_thermal_s",
    "power_violation_s",
    "sync_boost_s",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleEvidence:
    """Sentences; a part is empty if the samples have no evidence for it.

    `leads` name which series followed which, `clocks` what held the clocks of the affected GPUs, `offered` an
    experiment that an operator could run.
    """

    leads: tuple[str, ...] = ()
    clocks: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()


def sample_evidence(
    incident: Incident, frames: Sequence[Frame], topology: Topology, *, capped: Collection[str] = ()
) -> SampleEvidence:
    """Return the evidence in the samples around an incident; `capped` are the GPUs that railwatch capped."""
    return SampleEvidence(
        leads=_leads(incident, frames, topology),
        clocks=_clocks(incident, frames, capped),
        offered=_offered(incident, frames, topology),
    )


def gpu_frame(frames: Sequence[Frame]) -> Frame | None:
    """Return one frame of the GPUs with the signals of clock accounting; None if there are none."""
    there = {name for one in frames if one.spec.kind is EntityKind.GPU for name in one.spec.signals}
    signals = tuple(name for name in _CLOCKS if name in there)
    if not {"throttle_reasons", "sm_clock_mhz"} & set(signals):
        return None
    return _held(EntityKind.GPU, signals, [one for one in frames if one.spec.kind is EntityKind.GPU])


def _held(kind: EntityKind, signals: Sequence[str], frames: Sequence[Frame]) -> Frame:
    """Return several frames as one, with each value held until the next one or until it became absent."""
    frame = merge_frames(kind, signals, [*_marked(frames)])
    known = ~np.isnan(frame.values)
    last = np.maximum.accumulate(np.where(known, np.arange(len(frame))[:, np.newaxis, np.newaxis], -1), axis=0)
    held = np.take_along_axis(frame.values, np.maximum(last, 0), axis=0) if len(frame) else frame.values
    return replace(frame, values=np.where((last >= 0) & np.isfinite(held), held, np.nan))


def _marked(frames: Sequence[Frame]) -> Iterator[Frame]:
    """Yield the frames with infinity where a value became absent: for merging, NaN means not in this table."""
    last: dict[TableSpec, FloatArray] = {}
    for one in frames:
        if not len(one):
            continue
        before = np.concatenate([last.get(one.spec, np.full_like(one.values[:1], np.nan)), one.values[:-1]])
        ended = np.isnan(one.values) & ~np.isnan(before)
        last[one.spec] = one.values[-1:]
        yield replace(one, values=np.where(ended, np.inf, one.values), fresh=one.fresh | ended)


def _clocks(incident: Incident, frames: Sequence[Frame], capped: Collection[str]) -> tuple[str, ...]:
    frame = gpu_frame(frames)
    if frame is None or len(frame) < 2:
        return ()
    account = clock_account(frame, capped=capped)
    concerned = {incident.entity_id, *incident.affected}
    own = [place for place, entity in enumerate(frame.spec.entities) if entity.id in concerned]
    alike: dict[str, list[str]] = {}
    for place in own or range(len(frame.spec.entities)):
        gpu = frame.spec.entities[place]
        text = account_text(account, place)
        alike.setdefault(text, []).append(gpu.id)
    names = EntityNames(frame.spec.entities)
    return tuple(f"{names.names(gpus)}: {text}" for text, gpus in [*alike.items()][:_MOST_LINES])


def _leads(incident: Incident, frames: Sequence[Frame], topology: Topology) -> tuple[str, ...]:
    supplies = _held(EntityKind.SUPPLY, ("voltage_v",), _of(frames, EntityKind.SUPPLY, "voltage_v"))
    gpus = _held(EntityKind.GPU, ("power_w",), _of(frames, EntityKind.GPU, "power_w"))
    if len(supplies) < 2 or len(gpus) < 2:
        return ()
    slow = max(float(np.median(np.diff(one.time_ns))) for one in (supplies, gpus)) > 1.5 * _FAST_S * NS_PER_S
    step_s = _SLOW_S if slow else _FAST_S
    first_ns, last_ns = max(supplies.time_ns[0], gpus.time_ns[0]), min(supplies.time_ns[-1], gpus.time_ns[-1])
    grid_ns = np.arange(first_ns, last_ns + 1, round(step_s * NS_PER_S), dtype=np.int64)
    members = (*gpus.spec.entities, *supplies.spec.entities)
    series = np.concatenate([_on_grid(gpus, grid_ns), _on_grid(supplies, grid_ns)], axis=1)
    kinship = Kinship.of(topology)
    fed = {
        one.id: set(kinship.gpus_under(one.id)) if kinship.knows(one.id) else set() for one in supplies.spec.entities
    }
    places = {entity.id: place for place, entity in enumerate(members)}
    pairs = [
        (places[gpu.id], places[supply.id])
        for supply in supplies.spec.entities
        for gpu in gpus.spec.entities
        if gpu.id in fed[supply.id]
    ]
    # The significance test shifts the series, which needs room beyond the lags.
    lags = min(max_lag(1.0 / step_s), len(grid_ns) // 20)
    found = lag_links(series, pairs, lags=lags, seed=_SEED) if lags else ()
    strong = [one for one in found if one.is_significant and abs(one.correlation) >= _LEAST_CORRELATION]
    strong = _evidence_in(incident, strong, members)
    strong.sort(key=lambda one: -abs(one.correlation))
    return tuple(_account_text(one, members, step_s) for one in strong[:_MOST_LEADS])


def _evidence_in(incident: Incident, links: Sequence[LagLink], members: Sequence[Entity]) -> list[LagLink]:
    """Return the links that are evidence: any load lowers a voltage at once, which shows neither a hang nor a loss.

    Later changes of such a voltage are the next step of a periodic job.
    """
    if family_of(incident.cause) == ELECTRICAL:
        return [*links]
    concerned = {incident.entity_id, *incident.affected}
    regulated = {one.target for one in links if one.lag == 0}
    return [
        one
        for one in links
        if one.target not in regulated and concerned & {members[one.source].id, members[one.target].id}
    ]


def _of(frames: Sequence[Frame], kind: EntityKind, signal: str) -> list[Frame]:
    return [one for one in frames if one.spec.kind is kind and signal in one.spec.signals]


def _on_grid(frame: Frame, grid_ns: np.ndarray[tuple[int], np.dtype[np.int64]]) -> FloatArray:
    rows = np.searchsorted(frame.time_ns, grid_ns, side="right") - 1
    found: FloatArray = np.where((rows >= 0)[:, np.newaxis], frame.values[np.maximum(rows, 0), :, 0], np.nan)
    return found


def _account_text(link: LagLink, members: Sequence[Entity], step_s: float) -> str:
    gpu, supply = members[link.source].label, members[link.target].label
    late_s = link.lag * step_s
    order = "at the same time" if link.lag == 0 else f"{abs(late_s):g} s {'later' if link.lag > 0 else 'earlier'}"
    way = "falls" if link.correlation < 0 else "rises"
    return (
        f"when the power of {gpu} rises, the voltage of {supply} {way} {order} "
        f"(correlation {link.correlation:+.2f}, by chance 1 in {1.0 / max(link.p_value, 1e-6):.0f})"
    )


def _offered(incident: Incident, frames: Sequence[Frame], topology: Topology) -> tuple[str, ...]:
    """Return the experiment that would show which GPU moves the voltage; it is only described, not run."""
    likeliest = incident.hypotheses[0].probability if incident.hypotheses else 0.0
    if family_of(incident.cause) != ELECTRICAL or likeliest >= _SURE:
        return ()
    frame = gpu_frame(frames)
    if frame is None or not {"power_w", "sm_clock_mhz"} <= set(frame.spec.signals):
        return ()
    power_w, clock_mhz = (np.nanmedian(frame.signal(name)[-600:], axis=0) for name in ("power_w", "sm_clock_mhz"))
    kinship = Kinship.of(topology)
    fed = kinship.gpus_under(incident.entity_id) if kinship.knows(incident.entity_id) else ()
    busy = np.array([entity.id in fed or not fed for entity in frame.spec.entities]) & np.isfinite(clock_mhz)
    place = pick_gpu(power_w, busy)
    if place is None:
        return ()
    gpu, high_mhz = frame.spec.entities[place], float(clock_mhz[place])
    low_mhz = high_mhz - (MIN_STEP_MHZ + MAX_STEP_MHZ) / 2.0
    plan = plan_dither(gpu.id, clock_mhz=high_mhz, supported_mhz=(low_mhz, high_mhz), seed=_SEED)
    if plan is None or math.isnan(high_mhz):
        return ()
    text = (
        f"optional experiment: switch {gpu.label} between {high_mhz:.0f} MHz and about {high_mhz - low_mhz:.0f} MHz "
        f"below, {len(plan.levels)} times in random order, {plan.duration_s:.0f} s in all; if the voltage follows, the "
        "GPU moves it, and the size is the source resistance; if not, the cause is elsewhere "
        f"(railwatch dither plan {gpu.name})"
    )
    return (text,)
