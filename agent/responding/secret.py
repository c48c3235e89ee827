"""Secret in an environment variable or a file, never in the configuration, logs or messages."""

import os
from dataclasses import dataclass
from pathlib import Path

from telemetry.errors import NotPermittedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """Location of a secret; it is read at each use, so that it can be changed while the agent runs.

    Parameters
    ----------
    variable
        Environment variable with the secret; empty: none.
    file
        File with the secret; used before the variable.
    """

    variable: str = ""
    file: Path | None = None

    def __bool__(self) -> bool:
        """Return True if a location is set."""
        return bool(self.variable) or self.file is not None

    @property
    def place(self) -> str:
        """Description of the location, without the secret."""
        return f"the environment variable {self.variable}" if self.file is None else f"the file {self.file}"

    def read(self) -> str:
        """Return the secret; empty if no location is set.

        Raises
        ------
        NotPermittedError
            It cannot be read.
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
