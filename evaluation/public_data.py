"""Location of the real recordings that a suite needs."""

import os
from pathlib import Path

from telemetry.errors import EnvironmentLacksError

VARIABLE = "RAILWATCH_DATA"


def data_folder(name: str) -> Path:
    """Return a folder of public recordings; EnvironmentLacksError where it is not there."""
    root = os.environ.get(VARIABLE)
    if not root:
        raise EnvironmentLacksError(f"{VARIABLE}: not set; expected a folder that holds {name}/")
    folder = Path(root) / name
    if not folder.is_dir():
        raise EnvironmentLacksError(f"{folder}: no such folder; expected the public recordings of {name}")
    return folder
