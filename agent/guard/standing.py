"""Standing verdict on the supply side, for a file that other processes read; it is renewed each minute."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any

from agent.guard.judges import BLOCK_NS
from analytics.detectors.build import AnyDetector
from analytics.detectors.gpu_margins import GpuMarginsState
from analytics.detectors.supply_margins import SupplyMarginsState
from analytics.supply.standing import StandingVerdict
from telemetry.json_text import json_bytes


def verdict_of(states: Iterable[Any]) -> StandingVerdict:
    """Return the newest verdict of the detectors of margins from the states of all detectors."""
    supplies = gpus = None
    for state in states:
        if isinstance(state, SupplyMarginsState):
            supplies = state.verdict
        elif isinstance(state, GpuMarginsState):
            gpus = state.verdict
    return StandingVerdict(supplies=supplies, gpus=gpus)


class Standing:
    """Newest verdict of the detectors of margins; `states` yields each detector with its state."""

    def __init__(self, states: Callable[[], Iterator[tuple[AnyDetector, Any]]]) -> None:
        self._states = states
        self._packed = StandingVerdict()
        self._block: int | None = None

    @property
    def verdict(self) -> StandingVerdict:
        """The verdict of now."""
        return verdict_of(state for _, state in self._states())

    def is_new(self, now_ns: int, /) -> bool:
        """Return True if there is a verdict that was not packed yet.

        The states are searched once a block, as often as their detectors judge: the search takes 10 us and more, and
        the guard calls this at each step.
        """
        block = now_ns // BLOCK_NS
        if block == self._block:
            return False
        self._block = block
        now, packed = self.verdict, self._packed
        return now.supplies is not packed.supplies or now.gpus is not packed.gpus

    def learnt(self, now_ns: int, /) -> Callable[[], bytes]:
        """Return a function that packs the verdict; another thread calls it."""
        del now_ns
        verdict = self._packed = self.verdict
        return lambda: json_bytes(asdict(verdict))
