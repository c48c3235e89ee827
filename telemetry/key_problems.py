"""Errors that validators of a section raise for its keys."""

import re
from collections.abc import Sequence

# A place in a list, or the name of a key, in a dotted key.
_KEY_PART = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


class KeyProblemError(ValueError):
    """Raised by a validator of a section for one of its keys.

    `key` is relative to the section and may lead into it: ``port``, ``limits.power``, ``buses[1].supplies``.
    """

    def __init__(self, key: str, found: str, expected: str) -> None:
        super().__init__(f"{key}: {found}; expected {expected}")
        self.path = tuple(int(index) if index else name for index, name in _KEY_PART.findall(key))
        self.found = found
        self.expected = expected


class KeyProblemsError(ValueError):
    """Raised by a validator of a section for several of its keys."""

    def __init__(self, problems: Sequence[KeyProblemError]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)


def missing_key(key: str, expected: str) -> KeyProblemError:
    """Return the error for a key that another key makes necessary."""
    return KeyProblemError(key, "missing", expected)
