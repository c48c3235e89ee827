"""A secret that stands in an environment variable or a file, never in the configuration or in what is told of it."""

import os
from dataclasses import dataclass
from pathlib import Path

from telemetry.errors import NotPermittedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """Where a secret stands; it is read anew at each use, so that it can be changed under a running agent.

    Parameters
    ----------
    variable
        Environment variable with it; empty for none.
    file
        File with it, which comes first.
    """

    variable: str = ""
    file: Path | None = None

    def __bool__(self) -> bool:
        """Return whether a place is named at all."""
        return bool(self.variable) or self.file is not None

    @property
    def place(self) -> str:
        """Where it stands, in words that may be told."""
        return f"the environment variable {self.variable}" if self.file is None else f"the file {self.file}"

    def read(self) -> str:
        """Return the secret; empty where no place is named.

        Raises
        ------
        NotPermittedError
            Nothing can be read there.
        """
        if not self:
            return ""
        try:
            found = os.environ.get(self.variable, "") if self.file is None else self.file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as err:
            raise NotPermittedError(f"{self.place} cannot be read") from err
        found = found.strip()
        if not found:
            raise NotPermittedError(f"{self.place} is empty")
        return found


NO_SECRET = Secret()
