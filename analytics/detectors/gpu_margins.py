"""Margins of the plugs of branches and GPUs, and load steps over a power limit that is set.

Sums run over every row; a verdict is made once a minute. The current through a plug is the power of its GPUs at the
nominal voltage of their bus.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Annotated

import numpy as np

from analytics.connectivity.kinship import ByIdentity
from analytics.detectors.columns import optional
from analytics.detectors.condition import Changes, Conditions, Holds, judge, report_worse
from analytics.detectors.gpu_margins_summary import PlugScene, describe_limit, describe_plug
from analytics.detectors.minutes import Minute, minute_at
from analytics.detectors.seconds import running_sum, stretches
from analytics.detectors.statements import findings_from
from analytics.detectors.supply_margins_limits import SupplyMarginsLimits
from analytics.supply.standing import GpuVerdict, LimitStanding, LinkStanding
from analytics.supply.supply_margins import Basis
from physics.gpu_references import GpuReferences
from physics.link_loads import LinkLoad, branch_loads
from physics.step_power import step_power_w
from physics.wiring import Bus, Wiring
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology, label_list
from telemetry.frames import FloatArray, Frame, FromZero, MaskArray, TableSpec, filled
from telemetry.records import Cause, Finding, Severity

# heuristic: a phase of a training step lasts some tenths of a second; NVML updates power every 20 to 100 ms
# (arXiv 2312.02741). With fewer updates a second the highest reading is no step.
STEP_HZ = 8.0
# heuristic: below this share of its limit a board is not held by it, so the part's table shows no step of now.
_LOADED_RATIO = 0.8
# heuristic: lower than the idle power of any board of the table: such a board is off.
_OFF_W = 5.0
_SEEN_RATIO = 0.5
# heuristic: a power sensor may be off by 5 % (arXiv 2312.02741), and a limit is kept within a few watts.
STEP_OVER_RATIO = 1.05
# A tenth more load over a limit is worth an update, and so is a higher severity.
_BADNESS_OF_SEVERITY, _BADNESS_OF_LOAD = 100.0, 10.0


Entities = tuple[Entity, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PowerMinute:
    """Sums of the open second and of the seconds since the last verdict, arrays of shape ``(n_gpus,)``.

    `high_w` is the highest power of the open second, `step_w` that of a second, `second_step_w` that of the second
    second, so that one wrong reading is no load. `updates` counts readings of the sensor.
    """

    rows: FromZero
    row_sums: FromZero
    high_w: Annotated[FloatArray, -np.inf]
    updates: FromZero
    seconds: FromZero
    sums: FromZero
    step_w: FromZero
    second_step_w: FromZero


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GpuMarginsState:
    """State between rows; `since_second` is when the minute began, `verdict` the newest one."""

    second: int | None
    since_second: int | None
    judged_second: int | None
    minute: PowerMinute
    verdict: GpuVerdict | None
    plugs: Conditions
    steps: Conditions


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Powers:
    """What a minute shows of each GPU: mean power, power in load steps, limit that is set and default limit.

    Watts, arrays of shape ``(n_gpus,)``; NaN where unknown.
    """

    passed_s: int
    mean_w: FloatArray
    step_w: FloatArray
    limit_w: FloatArray
    default_w: FloatArray

    def over_limit(self) -> FloatArray:
        """Return the power in load steps over a limit that is set below the default, 1 from where it is worth a note.

        NaN for a GPU whose limit is the default, or whose steps are not known.
        """
        is_set = self.limit_w < self.default_w
        return np.where(is_set, self.step_w / (STEP_OVER_RATIO * self.limit_w), np.nan)

    def limit_of(self, entities: Entities, place: int) -> LimitStanding:
        """Return the limit and the steps of a GPU."""
        return LimitStanding(
            gpu=entities[place].id, limit_w=float(self.limit_w[place]), step_w=float(self.step_w[place])
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMargins:
    """Raises `Cause.PLUG_OVER_RATING` and `Cause.STEPS_OVER_LIMIT` on GPUs.

    Plugs are those of the described wiring; without it only power limits are judged.
    """

    limits: SupplyMarginsLimits
    wiring: Wiring | None = None
    name: str = "gpu_margins"
    kind: EntityKind = EntityKind.GPU
    signals: tuple[str, ...] = ("power_w",)

    def with_wiring(self, wiring: Wiring | None) -> "GpuMargins":
        """Return the detector of a node with this wiring."""
        return replace(self, wiring=wiring)

    def start(self, spec: TableSpec) -> GpuMarginsState:
        """Return the state before the first row."""
        return filled(GpuMarginsState, len(spec.entities))

    def step(
        self, state: GpuMarginsState, frame: Frame, topology: Topology
    ) -> tuple[GpuMarginsState, tuple[Finding, ...]]:
        """Sum the rows of a frame; judge where a minute ends."""
        del topology
        column = frame.spec.signals.index("power_w")
        values, fresh = frame.values[:, :, column], frame.fresh[:, :, column]
        findings: list[Finding] = []
        for second, rows, ended_ns in stretches(frame.time_ns, state.second):
            if ended_ns is not None:
                state, found = self._second_ended(state, frame, rows.start, second, ended_ns)
                findings.extend(found)
            since = second if state.since_second is None else state.since_second
            minute = _with_rows(state.minute, values[rows], fresh[rows])
            state = replace(state, second=second, since_second=since, minute=minute)
        return state, tuple(findings)

    def _second_ended(
        self, state: GpuMarginsState, frame: Frame, row: int, second: int, now_ns: int
    ) -> tuple[GpuMarginsState, tuple[Finding, ...]]:
        state = replace(state, minute=_with_second(state.minute))
        last, since, judged = state.second, state.since_second, state.judged_second
        at = minute_at(second, self.limits, last=last, since=since, judged=judged)
        if at is Minute.OPEN:
            return state, ()
        n_gpus = len(frame.spec.entities)
        began = replace(state, since_second=second, minute=filled(PowerMinute, n_gpus))
        if at is Minute.BROKEN:
            return began, ()
        powers = _powers(state.minute, frame, row, second - (since or 0))
        return self._judged(replace(began, judged_second=second), frame.spec.entities, powers, now_ns)

    def _judged(
        self, state: GpuMarginsState, entities: Entities, powers: Powers, now_ns: int
    ) -> tuple[GpuMarginsState, tuple[Finding, ...]]:
        plugs = [*self._plugs(entities, powers.mean_w)]
        worst = worst_at(plugs, entities)
        severities = {place: self._severity(one) for place, one in worst.items()}
        ratios = {place: one.ratio for place, one in worst.items()}
        held, moved = self._move(state.plugs, ratios, severities, powers.passed_s, now_ns)
        cause = Cause.PLUG_OVER_RATING
        stated = partial(
            describe_plug, PlugScene(worst=worst, entities=entities, power_w=powers.mean_w, severities=severities)
        )
        findings = findings_from(
            f"{self.name}.{cause.value}", cause, entities, held, moved, now_ns=now_ns, describe=stated
        )
        over = {place: float(one) for place, one in enumerate(powers.over_limit()) if np.isfinite(one)}
        beyond = self._beyond_plugs(entities, powers)
        severities = {place: Severity.WARNING if place in beyond else Severity.INFO for place in over}
        steps, moved = self._move(state.steps, over, severities, powers.passed_s, now_ns)
        stated = partial(describe_limit, entities, (powers.limit_w, powers.step_w), beyond)
        findings += findings_from(
            self.name, Cause.STEPS_OVER_LIMIT, entities, steps, moved, now_ns=now_ns, describe=stated
        )
        labels = {one.id: one.label for one in entities} if plugs else {}
        verdict = GpuVerdict(
            time_ns=now_ns,
            span_s=powers.passed_s,
            links=tuple(self._standing(one, labels) for one in plugs),
            limits=tuple(powers.limit_of(entities, place) for place, ratio in over.items() if ratio > 1.0),
            are_off=bool(entities) and not bool((powers.mean_w > _OFF_W).any()),
        )
        return replace(state, plugs=held, steps=steps, verdict=verdict), findings

    def _beyond_plugs(self, entities: Entities, powers: Powers) -> dict[int, LinkLoad]:
        """Return of each GPU, by place, the plugs whose short-time rating, or else rating, its load steps exceed."""
        steps = self._plugs(entities, np.fmax(powers.step_w, powers.mean_w))
        return worst_at([one for one in steps if one.load > (one.peak_rating or one.rating)], entities)

    def _plugs(self, entities: Entities, power_w: FloatArray) -> Iterator[LinkLoad]:
        """Yield the load of the rated plugs of branches and GPUs of the described wiring."""
        if self.wiring is None:
            return
        known = zip(entities, power_w, strict=True)
        powers_w = {one.id: float(power_w) for one, power_w in known if np.isfinite(power_w)}
        for bus, voltage_v, fed in _fed(ByIdentity(self.wiring), ByIdentity(entities)):
            yield from branch_loads(bus, voltage_v=voltage_v, gpus=fed, powers_w=powers_w)

    def _severity(self, link: LinkLoad) -> Severity:
        return Severity.CRITICAL if link.ratio > self.limits.critical_ratio else Severity.WARNING

    def _standing(self, link: LinkLoad, labels: Mapping[str, str]) -> LinkStanding:
        return LinkStanding(
            kind=link.kind,
            part=label_list(labels[gpu] for gpu in link.gpus),
            name=link.name,
            basis=Basis.NOW.value,
            without="",
            load=link.load,
            rating=link.rating,
            unit=link.unit,
            excess=link.ratio,
            mend_w=link.shed_w,
            severity=self._severity(link) if link.ratio > 1.0 else None,
            at_least=link.at_least,
        )

    def _move(
        self,
        held: Conditions,
        ratios: Mapping[int, float],
        severities: Mapping[int, Severity],
        passed_s: int,
        now_ns: int,
    ) -> tuple[Conditions, Changes]:
        excess, badness = np.full(len(held.active), np.nan), np.zeros(len(held.active))
        for place, ratio in ratios.items():
            excess[place] = ratio
            badness[place] = (
                _BADNESS_OF_SEVERITY * (severities[place].rank if place in severities else 0) + _BADNESS_OF_LOAD * ratio
            )
        over = excess > 1.0
        held, changes = judge(
            held,
            now_ns=now_ns,
            elapsed_ns=passed_s * NS_PER_S,
            over=over,
            under=excess < self.limits.clear_ratio,
            seen=np.isfinite(excess),
            holds=Holds.of_seconds(set_s=0.0, clear_s=self.limits.clear_after_s),
        )
        return report_worse(held, changes, now_ns=now_ns, over=over, badness=badness)


@lru_cache(maxsize=4)
def _fed(wiring: ByIdentity[Wiring], entities: ByIdentity[Entities]) -> tuple[tuple[Bus, float, Entities], ...]:
    """Return the buses of known nominal voltage, that voltage, and the GPUs at the branches of each."""
    gpus = GpuReferences.of(entities.it)
    known = ((bus, wiring.it.nominal_v_of(bus)) for bus in wiring.it.buses)
    return tuple((bus, voltage_v, gpus.fed_by(bus)) for bus, voltage_v in known if voltage_v is not None)


def worst_at(links: Sequence[LinkLoad], entities: Entities) -> dict[int, LinkLoad]:
    """Return the link of each GPU that is nearest to its rating; plugs of a branch are those of each of its GPUs."""
    places = {one.id: place for place, one in enumerate(entities)}
    worst: dict[int, LinkLoad] = {}
    for link in links:
        for place in (places[gpu] for gpu in link.gpus):
            if place not in worst or worst[place].ratio < link.ratio:
                worst[place] = link
    return worst


def _with_rows(minute: PowerMinute, power_w: FloatArray, fresh: MaskArray) -> PowerMinute:
    known = np.isfinite(power_w)
    return replace(
        minute,
        rows=minute.rows + known.sum(axis=0),
        row_sums=running_sum(minute.row_sums, np.where(known, power_w, 0.0)),
        high_w=np.fmax(minute.high_w, np.where(known, power_w, -np.inf).max(axis=0)),
        updates=minute.updates + (fresh & known).sum(axis=0),
    )


def _with_second(minute: PowerMinute) -> PowerMinute:
    """Return the sums with the open second closed."""
    known, empty = minute.rows > 0, np.zeros(len(minute.rows))
    return replace(
        minute,
        rows=empty,
        row_sums=empty,
        high_w=np.full(len(empty), -np.inf),
        seconds=minute.seconds + known,
        sums=minute.sums + minute.row_sums / np.maximum(minute.rows, 1.0),
        step_w=np.fmax(minute.step_w, minute.high_w),
        second_step_w=np.fmax(minute.second_step_w, np.fmin(minute.step_w, minute.high_w)),
    )


def _powers(minute: PowerMinute, frame: Frame, row: int, passed_s: int) -> Powers:
    """Return what a minute of so many seconds shows; limits are those of a row of the frame."""
    seen = minute.seconds >= _SEEN_RATIO * passed_s
    mean_w = np.divide(minute.sums, minute.seconds, out=np.full_like(minute.sums, np.nan), where=seen)
    limit_w, default_w = optional(frame, "power_limit_w")[row], optional(frame, "power_limit_default_w")[row]
    shows_steps = minute.updates >= STEP_HZ * minute.seconds
    tabled = [step_power_w(one.tag("model") or one.name) for one in frame.spec.entities]
    of_part_w = np.array([np.nan if one is None else one for one in tabled], dtype=np.float64)
    of_part_w = np.where(mean_w >= _LOADED_RATIO * limit_w, of_part_w, np.nan)
    return Powers(
        passed_s=passed_s,
        mean_w=mean_w,
        step_w=np.where(seen & shows_steps, minute.second_step_w, of_part_w),
        limit_w=limit_w,
        default_w=default_w,
    )
