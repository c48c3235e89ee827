"""State, errors and traffic of every NVLink, once a second."""

from collections.abc import Sequence

from agent.driver.port import LinkIdentity, LinkReader
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray, TableSpec
from telemetry.signals import RateClass, Source, signals_of


def link_entities(links: Sequence[LinkIdentity]) -> tuple[Entity, ...]:
    """Return NVLinks as entities keyed by GPU and number; a tag names the peer."""
    return tuple(
        Entity(
            kind=EntityKind.LINK,
            key=f"{link.gpu_uuid}/nvlink{link.link}",
            name=f"gpu{link.gpu_index}-nvlink{link.link}",
            tags=(("gpu", link.gpu_uuid), ("peer", link.peer or "none")),
        )
        for link in links
    )


class GpuLinks:
    """The signals of a `LinkReader`. The reader belongs to the caller."""

    name = "gpu_links"
    rate = RateClass.SLOW

    def __init__(self, reader: LinkReader) -> None:
        self._reader = reader
        self.spec = TableSpec(
            name=self.name,
            kind=EntityKind.LINK,
            entities=link_entities(reader.links),
            signals=tuple(signal.name for signal in signals_of(EntityKind.LINK, source=Source.NVLINK)),
        )

    def open(self) -> None:
        """Do nothing: the caller opens the reader."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_links, n_signals)``; the links of a lost GPU are rows of NaN."""
        self._reader.read(values)

    def close(self) -> None:
        """Do nothing: the caller closes the reader."""
