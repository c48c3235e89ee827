"""What was worked out once of a topology, for whoever asks again with the very same objects.

A fleet's topology has a million entities and stays for days, and every detector asks the same of it.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True, eq=False)
class Same(Generic[Thing]):
    """One object as the key of a cache: equal to itself alone, whatever is equal to it, and never hashed."""

    it: Thing

    def __hash__(self) -> int:
        """Return a hash that costs nothing however large the object is."""
        return id(self.it)

    def __eq__(self, other: object) -> bool:
        """Return whether it is the very same object."""
        return isinstance(other, Same) and self.it is other.it
