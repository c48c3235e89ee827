"""Wiring learnt from load steps: which supply's power follows which GPU's power.

GPUs of one synchronous job rise and fall together, and their common movement holds no information about which bus each
is on. It is taken out first. What is left of a supply's steps is its share of what is left of the steps of the GPUs on
its bus. For every way to put supplies on buses, each GPU goes to the bus where that explains most; the way with the
shortest description is the answer, and what moving one link would cost is the confidence in it. Where GPUs never
differ, nothing can be learnt, and the answer states that. Then one GPU after the other can be moved on purpose
(`load_response`): what the supplies showed is part of the same description, so that each link has one confidence.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity.alignment import aligned_power, means_over
from analytics.connectivity.load_response import IndexArray, LoadResponse, ResponseTable
from telemetry.frames import FloatArray

# heuristic: every way to divide six supplies is 203; beyond that only those that clustering suggests are tried.
_MOST_DIVIDED = 6
# heuristic: with fewer steps chance looks like a link.
_LEAST_STEPS = 40
# heuristic: of the likelihood, as if half of the steps were independent: neighbouring differences share a sample.
_INDEPENDENT = 0.5
# heuristic: a mean over two seconds holds most of one change, whatever the pace of the sensors.
_STEP_S = 2.0
_PASSES = 20
# heuristic: a link costs twice the nats that name its bus, so that the errors of sensors, which are not quite noise, do
# not pass for buses.
_LINK_COST = 2.0
# heuristic: of a step as the sensors of the GPUs show it, where the data cannot show how much is real.
_LEAST_SEEN = 0.5
# heuristic: nats of one step below which its evidence is none. GPUs in step differ by the errors of their sensors, and
# those would add up to certainty over some minutes.
_LEAST_NATS = 0.1
# heuristic: errors of sensors on GPUs that move together can pass for buses, and then a supply shows less of the GPUs'
# differences than there seems to be (0.72 on simulated synchronous training, 0.88 and more where the answer was right)
# and most of its own stays unexplained.
_CREDIBLE_SEEN, _CREDIBLE_EXPLAINED = 0.8, 0.4
# heuristic: of the fair share of a supply in the steps of its bus; one that takes less follows no GPU.
_LEAST_SHARE = 0.2
# heuristic: ways to put supplies on buses that are searched to the end, those that begin best.
_SEARCHED = 12
# heuristic: one link in twenty may be wrong among those that are called sure.
SURE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntLink:
    """Bus of a supply or GPU; `confidence` is one half where nothing was seen, `other` is the next likely bus."""

    bus: int
    confidence: float
    other: int | None = None

    @property
    def is_sure(self) -> bool:
        """True if the link is as good as certain."""
        return self.confidence >= SURE

    @property
    def confidence_text(self) -> str:
        """Confidence as people write it, with the next likely bus where it is not sure."""
        shown = "more than 99.9 %" if self.confidence > 0.999 else f"{self.confidence * 100.0:.1f} %"
        other = "" if self.other is None else f", else bus{self.other}"
        return shown if self.is_sure else f"NOT SURE, {shown}{other}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntWiring:
    """Links of each supply and GPU, in their order; `n_steps` were compared, and GPUs moved in `n_experiments`."""

    supplies: tuple[LearntLink, ...]
    gpus: tuple[LearntLink, ...]
    n_steps: int
    n_experiments: int = 0

    @property
    def is_sure_of_any(self) -> bool:
        """True if the link of a supply or GPU is as good as certain."""
        return any(link.is_sure for link in (*self.supplies, *self.gpus))


def learn_wiring(
    supply_w: FloatArray, gpu_w: FloatArray, *, step_s: float, responses: Sequence[LoadResponse] = ()
) -> LearntWiring | None:
    """Return the wiring that explains the steps best; None if there are too few, and no responses.

    Parameters
    ----------
    supply_w, gpu_w
        Power of supplies and GPUs, shapes ``(n_times, n_supplies)`` and ``(n_times, n_gpus)``, evenly spaced by
        `step_s`; NaN where nothing was read.
    responses
        What the supplies showed while one GPU was moved on purpose, at other times than these. Where the steps show no
        link they count alone: errors of sensors would outweigh them.
    """
    aligned, stride = aligned_power(supply_w, gpu_w, step_s=step_s), max(1, round(_STEP_S / step_s))
    steps, loads = _steps(aligned.supply_w, stride), _steps(aligned.gpu_w, stride)
    whole = np.isfinite(steps).all(axis=1) & np.isfinite(loads).all(axis=1)
    n_steps = int(whole.sum()) // stride
    if not steps.shape[1] or not loads.shape[1] or (n_steps < _LEAST_STEPS and not responses):
        return None
    table = ResponseTable.of((), steps.shape[1])
    fit = _Fit.of(steps[whole], loads[whole], n_steps=n_steps, responses=table)
    found = fit.answer(_divisions(steps[whole])) if n_steps >= _LEAST_STEPS else None
    if not responses:
        return found
    counts_steps = found is not None and found.is_sure_of_any
    table = ResponseTable.of(responses, steps.shape[1])
    fit = replace(fit, n_steps=n_steps if counts_steps else 0, responses=table)
    return replace(fit.answer(_divisions(steps[whole], table)), n_steps=n_steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    """Sums of products of steps without their common movement.

    Supplies with themselves ``(S,)`` and with GPUs ``(S, G)``, GPUs with GPUs ``(G, G)``; `pairs` are those of supplies
    with each other before it was taken out, ``(S, S)``. With `n_steps` of 0 only the responses count.
    """

    own: FloatArray
    shared: FloatArray
    loads: FloatArray
    pairs: FloatArray
    n_steps: int
    responses: ResponseTable

    @classmethod
    def of(cls, steps: FloatArray, loads: FloatArray, *, n_steps: int, responses: ResponseTable) -> "_Fit":
        """Take the mean of the GPUs out of both, shapes ``(n_times, S)`` and ``(n_times, G)``."""
        common = loads.mean(axis=1)
        left, apart = _without(steps, common), _without(loads, common)
        return cls(
            own=np.maximum(np.sum(left**2, axis=0), 1e-9),
            shared=left.T @ apart,
            loads=apart.T @ apart,
            pairs=steps.T @ steps if len(steps) else np.eye(steps.shape[1]),
            n_steps=n_steps,
            responses=responses,
        )

    def answer(self, divisions: Iterable[tuple[int, ...]]) -> LearntWiring:
        """Return the links of the shortest description, from ways to put supplies on buses."""
        starts = sorted(((buses, self.first_gpus(buses)) for buses in divisions), key=lambda one: self.length(*one))
        found = [self.shortest(buses, gpus) for buses, gpus in starts[:_SEARCHED]]
        single = ((0,) * len(self.own), (0,) * len(self.loads))
        credible = [one for one in (*found, single) if self.is_credible(*one)]
        buses, gpus = min(credible, key=lambda one: self.length(*one))
        apart = dict(self.apart(buses, gpus))
        links = (apart.get(place) or self.link_of_supply(place, buses, gpus) for place in range(len(buses)))
        return LearntWiring(
            supplies=tuple(links),
            gpus=tuple(self.link_of_gpu(place, buses, gpus) for place in range(len(gpus))),
            n_steps=self.n_steps,
            n_experiments=len(self.responses.gpus),
        )

    def gains(self, buses: Sequence[int]) -> FloatArray:
        """Return the share of each supply in the steps of all supplies of its bus; those of one bus add up to 1."""
        together = np.equal.outer(buses, buses)
        found: FloatArray = (self.pairs * together).sum(axis=1) / np.maximum(
            together @ (self.pairs * together).sum(axis=1), 1e-9
        )
        return np.maximum(found, 0.0)

    def explained(self, buses: Sequence[int], gpus: Sequence[int]) -> tuple[float, FloatArray]:
        """Return how much of the GPUs' steps is seen on the supplies, 1 for all, and what that leaves of each supply's.

        Errors of the GPUs' sensors lower what is seen, alike on all supplies.
        """
        on = np.eye(max(buses) + 1)[:, list(gpus)]  # (n_buses, n_gpus)
        gain, of_supply = self.gains(buses), np.array(buses)
        along = gain * np.sum(self.shared * on[of_supply], axis=1)
        power = gain**2 * np.einsum("bg,gh,bh->b", on, self.loads, on)[of_supply]
        seen = float((along / self.own).sum()) / max(float((power / self.own).sum()), 1e-12)
        within = min(max(seen, 0.0), 1.0)
        return seen, np.clip((self.own - 2.0 * within * along + within**2 * power) / self.own, 1e-6, None)

    def length(self, buses: Sequence[int], gpus: Sequence[int]) -> float:
        """Return the length of the description in nats: of what stays unexplained, and of the links."""
        _, left = self.explained(buses, gpus)
        links = _LINK_COST * (len(buses) + len(gpus)) * math.log(max(buses) + 1)
        moved = float(self.surprise(buses, np.array(gpus)[self.responses.gpus]).sum())
        return 0.5 * _INDEPENDENT * self.n_steps * float(np.log(left).sum()) + links + moved

    def surprise(self, buses: Sequence[int], moved: IndexArray) -> FloatArray:
        """Return the nats of each response at each supply, ``(R, S)``, with the moved GPUs on these buses, ``(R,)``."""
        return _INDEPENDENT * self.responses.surprise(self.gains(buses), np.equal.outer(moved, buses))

    def seen_when_moved(self, buses: Sequence[int]) -> FloatArray:
        """Return the nats, ``(R, S)``, by which each response speaks for a single bus against no link at all."""
        nowhere = np.full(len(self.responses.gpus), -1)
        return self.surprise(buses, nowhere) - self.surprise(buses, nowhere + 1)

    def is_credible(self, buses: Sequence[int], gpus: Sequence[int]) -> bool:
        """Return True if several buses are seen in real differences of the GPUs, not in the errors of their sensors.

        A GPU that was moved on purpose differs for real.
        """
        seen, left = self.explained(buses, gpus)
        differs = seen >= _CREDIBLE_SEEN and float(left.mean()) <= 1.0 - _CREDIBLE_EXPLAINED
        return max(buses) == 0 or len(self.responses.gpus) > 0 or differs

    def apart(self, buses: Sequence[int], gpus: Sequence[int]) -> Iterator[tuple[int, LearntLink]]:
        """Yield the supplies that surely follow no moved GPU with their link, all on a bus of their own.

        The host's supplies take no part in the steps of any bus, so none of them is a better place than another.
        """
        fed = sorted(set(gpus))
        moved_on = np.array(gpus)[self.responses.gpus]
        for place, share in enumerate(self.gains(buses).tolist()):
            if not len(moved_on) or (buses[place] in fed and share * buses.count(buses[place]) >= _LEAST_SHARE):
                continue
            nats = [(self._against(place, buses, bus)[moved_on == bus].sum(), bus) for bus in fed]
            least, other = min(nats)
            if _confidence(float(least)) >= SURE:
                yield place, LearntLink(bus=max(fed) + 1, confidence=_confidence(float(least)), other=other)

    def _against(self, place: int, buses: Sequence[int], bus: int) -> FloatArray:
        """Return the nats of each response, ``(R,)``, against a fair share of a supply in the steps of a bus."""
        sharing = buses.count(bus) + (buses[place] != bus)
        fair = np.full(len(buses), 1.0 / sharing)
        linked = np.ones(self.responses.supply_w.shape, dtype=np.bool_)
        nats = self.responses.surprise(fair, linked) - self.responses.surprise(fair, ~linked)
        found: FloatArray = _INDEPENDENT * nats[:, place]
        return found

    def first_gpus(self, buses: Sequence[int]) -> tuple[int, ...]:
        """Return for each GPU the bus whose supplies follow it most where the other GPUs stay as they are."""
        follow = np.linalg.lstsq(self.loads, self.shared.T, rcond=1e-6)[0]  # (n_gpus, n_supplies)
        by_bus = [follow[:, np.array(buses) == bus].sum(axis=1) for bus in range(max(buses) + 1)]
        first = np.argmax(by_bus, axis=0)
        moved = self.responses.gpus
        nats = [self.surprise(buses, np.full(len(moved), bus)).sum(axis=1) for bus in range(max(buses) + 1)]
        first[moved] = np.argmin(nats, axis=0)
        return tuple(int(bus) for bus in first)

    def shortest(self, buses: tuple[int, ...], gpus: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the links of supplies and GPUs, moved one at a time while that shortens the description."""
        best, length = (buses, gpus), self.length(buses, gpus)
        for _ in range(_PASSES):
            changes = [(self.length(*changed), changed) for changed in _neighbours(*best)]
            shorter, changed = min(changes, default=(length, best), key=lambda one: one[0])
            if shorter >= length - 1e-9:
                break
            best, length = changed, shorter
        return best

    def link_of_gpu(self, place: int, buses: Sequence[int], gpus: Sequence[int]) -> LearntLink:
        """Return the link of a GPU, against its next likely bus; on a single bus against none."""
        if max(buses) == 0:
            seen = (_LEAST_SEEN * self.gains(buses)) ** 2 * self.loads[place, place] / self.own
            worse = self._worse(float(np.log1p(seen).sum()))
            moved = float(self.seen_when_moved(buses)[self.responses.gpus == place].sum())
            return LearntLink(bus=0, confidence=_confidence(worse + moved))
        return self._link(gpus[place], lambda bus: self.length(buses, _with(gpus, place, bus)), max(buses) + 1)

    def link_of_supply(self, place: int, buses: Sequence[int], gpus: Sequence[int]) -> LearntLink:
        """Return the link of a supply, against its next likely bus; on a single bus against one with half the GPUs."""
        if max(buses) == 0:
            apart = float(np.trace(self.loads)) / 4.0
            seen = (_LEAST_SEEN * self.gains(buses)[place]) ** 2 * apart / self.own[place]
            worse = self._worse(math.log1p(float(seen)))
            moved = float(self.seen_when_moved(buses)[:, place].sum()) / 2.0
            return LearntLink(bus=0, confidence=_confidence(worse + moved))

        def length(bus: int) -> float:
            changed = _with(buses, place, bus)
            return self.length(changed, gpus) if len(set(changed)) == len(set(buses)) else math.inf

        return self._link(buses[place], length, max(buses) + 1)

    def _worse(self, a_step: float) -> float:
        """Return the nats of all steps, where one step shows anything."""
        return 0.5 * _INDEPENDENT * self.n_steps * a_step if a_step >= _LEAST_NATS else 0.0

    @staticmethod
    def _link(own: int, length_of: Callable[[int], float], n_buses: int) -> LearntLink:
        length, other = min((length_of(bus), bus) for bus in range(n_buses) if bus != own)
        worse = length - length_of(own)
        return LearntLink(bus=own, confidence=_confidence(worse), other=other if math.isfinite(worse) else None)


def _confidence(worse: float) -> float:
    """Return the probability of an answer against one whose description is longer by that many nats."""
    return 1.0 / (1.0 + math.exp(-min(max(worse, -50.0), 50.0)))


def _with(values: Sequence[int], place: int, value: int) -> tuple[int, ...]:
    return tuple(value if at == place else old for at, old in enumerate(values))


def _neighbours(buses: tuple[int, ...], gpus: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield the links with one GPU moved, and with one supply moved that is not the only one of its bus."""
    n_buses = max(buses) + 1
    yield from ((buses, _with(gpus, at, bus)) for at, own in enumerate(gpus) for bus in range(n_buses) if bus != own)
    for at, own in enumerate(buses):
        if buses.count(own) > 1:
            yield from ((_with(buses, at, bus), gpus) for bus in range(n_buses) if bus != own)


def _divisions(steps: FloatArray, responses: ResponseTable | None = None) -> Iterator[tuple[int, ...]]:
    """Yield ways to put supplies on buses, numbered in the order of their first supply.

    Beyond a few supplies those that clustering suggests: of steps, or of responses where GPUs were moved.
    """
    n_supplies = steps.shape[1]
    if n_supplies <= _MOST_DIVIDED:
        yield from _all_divisions(n_supplies)
        return
    groups = [{supply} for supply in range(n_supplies)]
    shown = steps if responses is None else responses.supply_w
    size = np.maximum(np.sqrt(np.sum(shown**2, axis=0)), 1e-9)
    alike = (shown / size).T @ (shown / size)
    while True:
        order = sorted(groups, key=min)
        yield tuple(next(bus for bus, group in enumerate(order) if supply in group) for supply in range(n_supplies))
        if len(groups) == 1:
            return
        pairs = ((one, two) for one in range(len(groups)) for two in range(one))
        one, two = max(pairs, key=lambda pair: alike[np.ix_([*groups[pair[0]]], [*groups[pair[1]]])].mean())
        rest = [group for place, group in enumerate(groups) if place not in (one, two)]
        groups = [*rest, groups[one] | groups[two]]


def _all_divisions(count: int, start: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    if len(start) == count:
        yield start
        return
    for bus in range(max(start, default=-1) + 2):
        yield from _all_divisions(count, (*start, bus))


def _steps(values: FloatArray, stride: int) -> FloatArray:
    """Return the differences of means over `stride` rows, at every row; NaN where a row of either was not read."""
    means = means_over(values, stride)
    found: FloatArray = means[stride:] - means[:-stride]
    return found


def _without(steps: FloatArray, common: FloatArray) -> FloatArray:
    """Return steps of shape ``(n_times, n)`` without what follows the common one, shape ``(n_times,)``."""
    found: FloatArray = steps - np.outer(common, common @ steps / max(float(common @ common), 1e-12))
    return found
