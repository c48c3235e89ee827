"""File of calibrated thresholds: written by ``railwatch models calibrate``, read wherever detectors are built."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from analytics.calibration.statistics import BY_NAME, raised
from analytics.detectors.limits import DetectorLimits
from config.models import Config
from telemetry.atomic_files import replace_file
from telemetry.documents import Lines, check_document, read_document
from telemetry.errors import ConfigError, Problem

_HEAD = """\
# Thresholds calibrated on healthy recordings; `analytics.thresholds` of the configuration names this file.
# Each raises one limit of `detectors` and lowers none. Made by railwatch models calibrate.
"""


class ThresholdFile(BaseModel):
    """Content of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    version: Literal[1]
    pages_per_node_month: float = Field(gt=0)
    healthy_node_days: float = Field(ge=0)
    recordings: tuple[str, ...] = ()
    thresholds: dict[str, float]


def write_thresholds(path: Path, held: ThresholdFile) -> None:
    """Write the file, whole or not at all."""
    text = _HEAD + yaml.safe_dump(held.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    replace_file(path, text.encode(), synced=False)


def read_thresholds(path: Path) -> ThresholdFile:
    """Read the file; ConfigError with every problem of it."""
    data, lines = read_document(path)
    if not isinstance(data, dict):
        found, expected = "no mapping of keys to values", "a file written by railwatch models calibrate"
        raise ConfigError.at(path, found, expected, key="(document)", line=1)
    held = check_document(ThresholdFile, data, where=str(path), lines=lines)
    problems = [
        Problem(
            where=str(path),
            line=lines.get(("thresholds", name)),
            key=f"thresholds.{name}",
            found=f"got {value:g}" if name in BY_NAME else "unknown limit",
            expected="a number above 0" if name in BY_NAME else f"one of {', '.join(BY_NAME)}",
        )
        for name, value in held.thresholds.items()
        if name not in BY_NAME or value <= 0
    ]
    if problems:
        raise ConfigError(problems)
    return held


def check_thresholds(config: Config, *, where: str, lines: Lines) -> None:
    """Refuse a configuration whose file of thresholds is missing or invalid; ConfigError at the key that names it."""
    path, key = config.analytics.thresholds, ("analytics", "thresholds")
    if path is None:
        return
    if not path.is_file():
        found, expected = f"no file {str(path)!r}", "a file written by railwatch models calibrate"
        raise ConfigError.at(where, found, expected, key=".".join(key), line=lines.get(key))
    read_thresholds(path)


def limits_of(config: Config) -> DetectorLimits:
    """Return the limits in force: the configured ones, raised by the calibration if there is one."""
    if config.analytics.thresholds is None:
        return config.detectors
    return raised(config.detectors, read_thresholds(config.analytics.thresholds).thresholds)


def in_force(config: Config) -> Mapping[str, tuple[float, float]]:
    """Return each limit that can be calibrated: as configured, and as in force."""
    limits = limits_of(config)
    return {name: (one.limit(config.detectors), one.limit(limits)) for name, one in BY_NAME.items()}
