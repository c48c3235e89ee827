"""Cache of results computed from a topology, keyed by the very same objects.

A fleet's topology has a million entities and stays for days, and every detector asks the same of it.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True, eq=False)
class Same(Generic[Thing]):
    """Cache key of one object: equal to itself alone, and never hashed by value."""

    it: Thing

    def __hash__(self) -> int:
        """Return a hash that costs nothing however large the object is."""
        return id(self.it)

    def __eq__(self, other: object) -> bool:
        """Return whether it is the very same object."""
        return isinstance(other, Same) and self.it is other.it
