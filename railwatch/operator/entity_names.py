"""Display names of entities: ``GPU 3`` instead of a UUID, and ``GPUs 0-3`` for several."""

import re
from collections.abc import Iterable

from telemetry.entities import Entity, label_list, label_of

_UUID = re.compile(r"(?:gpu:)?(GPU-[0-9a-f]{8})-[0-9a-f-]{27}")


class EntityNames:
    """Names of the entities of one node, by entity id."""

    def __init__(self, entities: Iterable[Entity] = ()) -> None:
        self._names = {one.id: one.label for one in entities}

    @property
    def known(self) -> bool:
        """True if there is at least one name."""
        return bool(self._names)

    def name(self, entity_id: str) -> str:
        """Return the display name of one entity; an unknown GPU has the first eight digits of its UUID."""
        name = self._names.get(entity_id)
        if name is None:
            short = _UUID.fullmatch(entity_id)
            name = short[1] if short else entity_id.partition(":")[2] or entity_id
        return label_of(name)

    def names(self, entity_ids: Iterable[str]) -> str:
        """Return the display names of several entities, consecutive numbers as a range: ``GPUs 0-3, PSU 1``."""
        return label_list(map(self.name, entity_ids))

    def in_text(self, text: str) -> str:
        """Return a text with the UUID of every GPU replaced by its name."""
        return _UUID.sub(lambda found: self.name(f"gpu:{found[0].removeprefix('gpu:')}"), text)
