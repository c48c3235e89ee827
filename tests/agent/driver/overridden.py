"""NVIDIA's library with functions that a test replaces."""

from collections.abc import Callable
from typing import Any


class Overridden:
    """The vendor's library with some functions replaced; None for a function that this driver does not have."""

    def __init__(self, real: Any, functions: dict[str, Callable[..., int] | None]) -> None:
        self.real = real
        self.functions = functions

    def __getattr__(self, name: str) -> Any:
        if name in self.functions:
            if self.functions[name] is None:
                raise AttributeError(name)
            return self.functions[name]
        return getattr(self.real, name)
