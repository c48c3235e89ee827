"""Standing verdict on the supply side, for a file that other processes read; it is renewed each minute."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from analytics.detectors.build import AnyDetector
from analytics.supply.standing import GpuVerdict, StandingVerdict, SupplyVerdict


class Standing:
    """Newest verdict of the detectors of margins; `states` yields each detector with its state."""

    def __init__(self, states: Callable[[], Iterator[tuple[AnyDetector, Any]]]) -> None:
        self._states = states
        self._packed: StandingVerdict | None = None

    @property
    def is_new(self) -> bool:
        """True if there is a verdict that was not packed yet."""
        now, packed = self.verdict, self._packed
        if now.supplies is None and now.gpus is None:
            return False
        return packed is None or now.supplies is not packed.supplies or now.gpus is not packed.gpus

    @property
    def verdict(self) -> StandingVerdict:
        """The verdict of now."""
        found = [getattr(state, "verdict", None) for _, state in self._states()]
        return StandingVerdict(
            supplies=next((one for one in found if isinstance(one, SupplyVerdict)), None),
            gpus=next((one for one in found if isinstance(one, GpuVerdict)), None),
        )

    def learnt(self, now_ns: int, /) -> Callable[[], bytes]:
        """Return a function that packs the verdict; another thread calls it."""
        del now_ns
        verdict = self._packed = self.verdict
        return lambda: json.dumps(asdict(verdict)).encode()
