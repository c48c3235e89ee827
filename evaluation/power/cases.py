"""Cases: each scored chain as it is and with each fault, and the chains for calibration; all of them from a seed."""

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluation.power.chains import Chain, Half, running_s
from evaluation.power.faults import places_of, targets_of, with_fault
from evaluation.power.oracle import sigmas
from evaluation.power.plan import PowerFault, PowerPlan, Put, Track
from evaluation.power.recordings import Trace

AS_RECORDED = "twins as recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """Truth of a case with a fault: the rows in which it is, who has it, and until which time an answer counts.

    An answer that names any of a target finds that target; `sigmas` is by how much the fault stands out.
    """

    name: str
    fault: PowerFault
    rows: slice
    place: int
    targets: tuple[frozenset[str], ...]
    begin_ns: int
    until_ns: int
    sigmas: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """Chain, and the fault put into it; None as it is. `id` names it for answers of others."""

    chain: Chain
    label: Label | None = None
    id: str = ""

    def trace(self) -> Trace:
        """Return the recording that is to be judged."""
        label = self.label
        if label is None or label.name == AS_RECORDED:
            return self.chain.trace
        return with_fault(self.chain, label.fault, label.rows, label.place)


def cases_of(chains: Sequence[Chain], plan: PowerPlan, *, draws: int | None) -> list[Case]:
    """Return all cases, numbered track by track in an order that the seed draws."""
    cases = [case for chain in chains for case in chain_cases(chain, plan, draws=draws)]
    return [case for track in Track for case in _numbered([one for one in cases if one.chain.track is track], plan)]


def chain_cases(chain: Chain, plan: PowerPlan, *, draws: int | None) -> Iterator[Case]:
    """Yield a chain as it is, and, of the scored half, with each fault that it can have."""
    if chain.twins:
        yield Case(chain=chain, label=_recorded_twins(chain, plan))
        return
    yield Case(chain=chain)
    if chain.half is Half.CALIBRATION:
        return
    for name, fault in plan.faults.items():
        if fault.track is not chain.track:
            continue
        for draw in range(draws or fault.draws):
            label = _drawn(chain, name, fault, plan, draw)
            if label is not None:
                yield Case(chain=chain, label=label)


def _drawn(chain: Chain, name: str, fault: PowerFault, plan: PowerPlan, draw: int) -> Label | None:
    """Return where a fault begins and who has it; the sizes of one kind share their draws."""
    places = places_of(chain, fault)
    if not places:
        return None
    seeds = [plan.seed, zlib.crc32(chain.name.encode()), zlib.crc32(fault.put.encode()), draw]
    chance = np.random.default_rng(seeds)
    place = places[int(chance.integers(len(places)))]
    passed_s = running_s(chain.trace)
    last = int(np.searchsorted(passed_s, passed_s[-1] - fault.within))
    first = int(chance.integers(chain.learn_rows, max(last, chain.learn_rows + 1)))
    first = 0 if fault.put is Put.TWIN else first
    end_s = math.inf if fault.lasts is None else passed_s[first] + fault.lasts
    rows = slice(first, int(np.searchsorted(passed_s, end_s)))
    stop = int(np.searchsorted(passed_s, passed_s[first] + fault.within, side="right"))
    seen = slice(first, min(rows.stop, stop))
    return Label(
        name=name,
        fault=fault,
        rows=rows,
        place=place,
        targets=(targets_of(chain.trace, fault, place),),
        begin_ns=int(chain.trace.time_ns[first]),
        until_ns=int(chain.trace.time_ns[stop - 1]),
        sigmas=sigmas(chain, fault, seen, place, look_s=fault.within),
    )


def _recorded_twins(chain: Chain, plan: PowerPlan) -> Label:
    fault = next(one for one in plan.faults.values() if one.put is Put.TWIN)
    times_ns = chain.trace.time_ns
    return Label(
        name=AS_RECORDED,
        fault=fault,
        rows=slice(0, len(times_ns)),
        place=0,
        targets=tuple(frozenset(pair) for pair in chain.twins),
        begin_ns=int(times_ns[0]),
        until_ns=int(times_ns[-1]),
        sigmas=math.inf,
    )


def _numbered(cases: Sequence[Case], plan: PowerPlan) -> Iterator[Case]:
    """Yield cases with their names: a number in a drawn order, and a check sum of what they are."""
    numbers = np.random.default_rng(plan.seed).permutation(len(cases))
    for number, case in zip(numbers.tolist(), cases, strict=True):
        check = zlib.crc32(
            f"{plan.seed} {case.chain.name} {len(case.chain.trace.time_ns)} {_what(case.label)}".encode()
        )
        yield replace(case, id=f"{case.chain.track}-{number + 1:04d}-{check & 0xFFFF:04x}")


def _what(label: Label | None) -> str:
    return "" if label is None else f"{label.name} {label.rows} {label.place}"
