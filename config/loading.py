"""Loading of the configuration: defaults, then a YAML file, then environment variables."""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from config.models import Config
from telemetry.documents import Lines, keys_of, problems_of, read_yaml
from telemetry.errors import ConfigError, Problem

PREFIX = "RAILWATCH_"
# Read by other parts: the state file of a simulated driver, how much is logged, and the recordings that tests use.
RESERVED = ("RAILWATCH_PLANT", "RAILWATCH_LOG_LEVEL", "RAILWATCH_DATA")

# Sections that were renamed; the earlier name is read for one more release.
EARLIER_SECTIONS = {"rails": "limits"}
# Keys that were removed, and what replaces them; each is read and ignored for one more release.
REMOVED_KEYS: dict[tuple[str, ...], str] = {
    ("detectors", "supply_headroom", "sized_ratio"): (
        "ratings are not derived from power limits; set detectors.supply_headroom.rated_w where supplies report none"
    ),
}

_log = logging.getLogger(__name__)


def load_config(path: Path | None, environ: Mapping[str, str]) -> Config:
    """Read the configuration.

    Parameters
    ----------
    path
        A YAML file; None reads no file.
    environ
        Variables such as ``RAILWATCH_STORE__URL`` (section and key, joined by two underscores) or
        ``RAILWATCH_DATA_DIR`` override the file; values are read as YAML scalars.

    Raises
    ------
    ConfigError
        With every problem of the file and the environment.
    """
    where, lines = "(environment)", Lines()
    data: Any = {}
    if path is not None:
        where = str(path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as err:
            reason = err.strerror if isinstance(err, OSError) and err.strerror else "not UTF-8 text"
            raise ConfigError.at(where, reason, "a readable YAML file", key="(file)") from err
        data, lines = read_yaml(text, where=where)
    if not isinstance(data, dict):
        raise ConfigError.at(
            where,
            f"got {'a list' if isinstance(data, list) else repr(data)}",
            "a mapping of keys to values, such as node: {name: gpu017}",
            key="(document)",
            line=1,
        )
    problems: list[Problem] = []
    data, lines = _renamed(data, lines, where, problems)
    data = _without_removed(data, lines, where)
    from_environment = _override(data, environ, problems)
    try:
        config = Config.model_validate(data)
    except ValidationError as err:
        for problem in problems_of(err, where=where, lines=lines, model=Config):
            variable = from_environment.get(problem.key)
            problems.append(
                problem
                if variable is None
                else Problem(where=variable, line=None, key=problem.key, found=problem.found, expected=problem.expected)
            )
        raise ConfigError(sorted(problems, key=lambda problem: problem.line or 0)) from err
    problems += _lateness_problems(config, where=where, lines=lines, from_environment=from_environment)
    if problems:
        raise ConfigError(problems)
    if config.analytics.thresholds is not None:  # saves the import where there is none
        from config.calibrated_thresholds import check_thresholds  # noqa: PLC0415

        check_thresholds(config, where=from_environment.get("analytics.thresholds", where), lines=lines)
    return config


def _renamed(data: dict[str, Any], lines: Lines, where: str, problems: list[Problem]) -> tuple[dict[str, Any], Lines]:
    """Return the document with sections of earlier names under their present ones; both at once is a problem."""
    for earlier, present in EARLIER_SECTIONS.items():
        if earlier not in data:
            continue
        if present in data:
            line, found = lines.get((earlier,)), f"both {earlier} and {present}"
            expected = f"only {present}: {earlier} is its earlier name"
            problems.append(Problem(where=where, line=line, key=earlier, found=found, expected=expected))
        else:
            _log.warning("%s: section %s is deprecated; rename it to %s", where, earlier, present)
        data = {present if key == earlier else key: value for key, value in data.items() if key != present}
        lines = {(present, *path[1:]) if path[:1] == (earlier,) else path: line for path, line in lines.items()}
    return data, lines


def _without_removed(data: dict[str, Any], lines: Lines, where: str) -> dict[str, Any]:
    """Return the document without keys that were removed; each is logged once."""
    for path, instead in REMOVED_KEYS.items():
        *sections, key = path
        place: Any = data
        for section in sections:
            place = place.get(section) if isinstance(place, dict) else None
        if isinstance(place, dict) and key in place:
            _log.warning("%s:%s: key %s is removed and ignored: %s", where, lines.get(path), ".".join(path), instead)
            data = _without(data, path)
    return data


def _without(data: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    first, *rest = path
    if not rest:
        return {key: value for key, value in data.items() if key != first}
    return {**data, first: _without(data[first], tuple(rest))}


def _lateness_problems(
    config: Config, *, where: str, lines: Lines, from_environment: Mapping[str, str]
) -> Iterator[Problem]:
    """Yield the problem of a fleet.lateness in which the slowest rows of the nodes cannot arrive."""
    rare_s = config.sampling.rare
    if "lateness" in config.fleet.model_fields_set and config.fleet.lateness <= rare_s:
        variable = from_environment.get("fleet.lateness")
        yield Problem(
            where=variable or where,
            line=None if variable else lines.get(("fleet", "lateness")),
            key="fleet.lateness",
            found=f"got {config.fleet.lateness:g} s",
            expected=f"more than sampling.rare of the nodes: {rare_s:g} s unless this file sets another",
        )


def _override(data: dict[str, Any], environ: Mapping[str, str], problems: list[Problem]) -> dict[str, str]:
    """Put the variables into `data`; return the variable of each dotted key."""
    origin: dict[str, str] = {}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable in RESERVED:
            continue
        keys = variable.removeprefix(PREFIX).lower().split("__")
        keys[0] = EARLIER_SECTIONS.get(keys[0], keys[0])
        if (instead := REMOVED_KEYS.get(tuple(keys))) is not None:
            _log.warning("%s: key %s is removed and ignored: %s", variable, ".".join(keys), instead)
            continue
        if not _known(keys):
            problems.append(
                Problem(
                    where=variable,
                    line=None,
                    key=".".join(keys),
                    found="unknown variable",
                    expected="RAILWATCH_SECTION__KEY of a known key",
                )
            )
            continue
        try:
            value = yaml.safe_load(environ[variable])
        except yaml.YAMLError:
            value = environ[variable]
        dotted = ".".join(keys)
        if dotted in origin:
            problems.append(
                Problem(
                    where=variable,
                    line=None,
                    key=dotted,
                    found=f"set as {origin[dotted]} too",
                    expected="the present name alone",
                )
            )
            continue
        target = data
        for key in keys[:-1]:
            inner = target.setdefault(key, {})
            if not isinstance(inner, dict):
                break  # the file's own problem is reported by the model
            target = inner
        else:
            target[keys[-1]] = value
            origin[dotted] = variable
    return origin


def _known(keys: list[str]) -> bool:
    """Return True if the keys lead to a value; a whole section cannot be one variable."""
    place: Any = Config
    for key in keys:
        inner = keys_of(place)
        if key not in inner:
            return False
        place = inner[key]
    return not keys_of(place)
