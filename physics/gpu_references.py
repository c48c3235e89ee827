"""GPUs by the texts that a wiring names them with: a look-up, since a fleet has more GPUs than can be gone through."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from physics.wiring import Branch, Bus, pci_address
from telemetry.entities import Entity


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GpuReferences:
    """Places of GPUs by name, by any text that means one, and by PCI address; as `physics.wiring.names_gpu` has it."""

    gpus: Sequence[Entity]
    by_name: Mapping[str, Sequence[int]]
    by_text: Mapping[str, Sequence[int]]
    by_address: Mapping[str, Sequence[int]]

    @staticmethod
    def of(gpus: Sequence[Entity]) -> "GpuReferences":
        """Index some GPUs."""
        by_name: dict[str, list[int]] = {}
        by_text: dict[str, list[int]] = {}
        by_address: dict[str, list[int]] = {}
        for place, gpu in enumerate(gpus):
            by_name.setdefault(gpu.name, []).append(place)
            for text in {gpu.key.casefold(), gpu.name.casefold()}:
                by_text.setdefault(text, []).append(place)
            by_address.setdefault(pci_address(gpu.tag("pci") or "-"), []).append(place)
        return GpuReferences(gpus=gpus, by_name=by_name, by_text=by_text, by_address=by_address)

    def fed_by(self, bus: Bus) -> tuple[Entity, ...]:
        """Return the GPUs at the branches of a bus, in their order."""
        places = {place for branch in bus.branches for place in self._at_end(branch)}
        return tuple(self.gpus[place] for place in sorted(places))

    def _at_end(self, branch: Branch) -> Iterable[int]:
        if branch.gpus is None:
            return range(len(self.gpus))
        return (place for reference in branch.gpus for place in self._named(reference.casefold()))

    def _named(self, text: str) -> Sequence[int]:
        if text.isdecimal():
            return self.by_name.get(f"gpu{int(text)}", ())
        return (*self.by_text.get(text, ()), *self.by_address.get(pci_address(text), ()))
