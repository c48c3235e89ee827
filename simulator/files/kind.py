"""Kind of a file, recognised by its keys, so that a mix-up is named."""

from pathlib import Path
from typing import Any

from telemetry.errors import ConfigError, Problem

# The first whose keys a file has; a scenario of no change has none of them, and neither has a sensor.
_KEYS_OF_KIND = {
    "GPU part": {"core_count", "compute_capability"},
    "node": {"slots", "supply", "cooling", "extends"},
    "rack": {"air", "feed"},
    "rack scenario": {"rack"},
    "workload": {"memory_share", "clock_bound_share"},
    "scenario": {"changes", "jobs", "truth", "include", "sensor_faults", "driver_faults"},
}
_PLACE = {
    "GPU part": "a GPU part stands under the key gpu of a node",
    "node": "use --node for a node",
    "rack": "use --rack for a rack",
    "rack scenario": "a scenario is named without an option, or with --scenario",
    "workload": "use --workload for a workload",
    "scenario": "a scenario is named without an option, or with --scenario",
}


def kind_of(data: Any) -> str | None:
    """Return what a file describes, in the words of ``railwatch simulate list``; None where its keys do not tell."""
    keys = set(data) if isinstance(data, dict) else set()
    return next((kind for kind, identifying in _KEYS_OF_KIND.items() if keys & identifying), None)


def refuse_other_kind(data: Any, *, wanted: str, path: Path) -> None:
    """Refuse a file of another kind with a ConfigError that says where such a file belongs."""
    kind = kind_of(data)
    if kind not in (None, wanted):
        expected = f"a {wanted}; {_PLACE[kind]}"
        raise ConfigError([Problem(where=str(path), line=None, key="", found=f"this is a {kind}", expected=expected)])
