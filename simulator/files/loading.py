"""Reading files that build on others: by name or path, with ``extends`` and parts that stand in files of their own."""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from telemetry.documents import Lines, check_document, in_line_order, read_document
from telemetry.errors import ConfigError, Problem

# The first whose keys a file has; a scenario of no change has none of them, and neither has a sensor.
_KEYS_OF_KIND = {
    "GPU part": {"core_count", "compute_capability", "hazard"},
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
Model = TypeVar("Model", bound=BaseModel)
Parts = Mapping[str, tuple[type[BaseModel], Path]]
References = Mapping[tuple[str, ...], Callable[..., object]]  # by key, what reads the file of a name, `option` too
Key = tuple[str | int, ...]
Origins = dict[Key, tuple[str, int]]
Check = Callable[[Any, Origins], list[Problem]]  # checks between the keys of one file
_EXTENDS = "extends"
_CHAIN_MAX = 8


def kind_of(data: Any) -> str | None:
    """Return the kind of a file as ``railwatch simulate list`` names it; None where its keys do not identify one."""
    keys = set(data) if isinstance(data, dict) else set()
    return next((kind for kind, identifying in _KEYS_OF_KIND.items() if keys & identifying), None)


def refuse_other_kind(data: Any, *, wanted: str, path: Path) -> None:
    """Refuse a file of another kind with a ConfigError that names where such a file belongs."""
    kind = kind_of(data)
    if kind not in (None, wanted):
        expected = f"a {wanted}; {_PLACE[kind]}"
        raise ConfigError.at(path, f"this is a {kind}", expected)


def names_in(folder: Path) -> tuple[str, ...]:
    """Return the names of the files of a folder that comes with railwatch, sorted."""
    return tuple(sorted(path.stem for path in folder.glob("*.yaml")))


def find(name_or_path: str, *, folder: Path, what: str, option: str, beside: Path | None = None) -> Path:
    """Return the path of a file that comes with railwatch, by name, or of any YAML file, by path.

    A relative path inside a file is relative to the folder `beside`.
    """
    if name_or_path.endswith((".yaml", ".yml")):
        path = Path(name_or_path) if beside is None else beside / name_or_path
    else:
        path = folder / f"{name_or_path}.yaml"
        if Path(name_or_path).is_dir() and not path.exists():
            found, expected = f"{name_or_path!r} is a folder", "a name, or the path of a YAML file"
            raise ConfigError.at(option, found, expected)
    if path.exists():
        return path
    raise unknown_name(name_or_path, names_in(folder), what=what, option=option)


def unknown_name(name: str, names: Iterable[str], *, what: str, option: str) -> ConfigError:
    """Return the error for a name that nothing has: which there are, and the one that it resembles."""
    known = list(names)
    nearest = difflib.get_close_matches(name, known, n=1)
    perhaps = f"; perhaps {nearest[0]}" if nearest else ""
    expected = f"a {what}: {', '.join(known)}, or the path of a YAML file{perhaps}"
    return ConfigError.at(option, f"got {name!r}", expected)


def at_key(err: ConfigError, *, path: Path | str, line: int | None, key: str) -> list[Problem]:
    """Return the problems of a file that `path` names at a key; what is wrong with the name itself stands there."""
    return [
        replace(problem, line=line, key=key) if (problem.where, problem.key) == (str(path), "") else problem
        for problem in err.problems
    ]


def items_of(data: Any, key: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the groups of keys in a list of a file that is not checked yet, by place; all else is left out."""
    items = data.get(key) if isinstance(data, dict) else None
    for place, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict):
            yield place, item


def resolved(name_or_path: str, *, beside: Path) -> str:
    """Resolve a name or path in a file: a name as it is, a path relative to the folder `beside` that holds the file."""
    return str(beside / name_or_path) if name_or_path.endswith((".yaml", ".yml")) else name_or_path


def load_with_parts(
    model: type[Model],
    path: Path,
    *,
    folder: Path,
    parts: Parts,
    references: References,
    kind: str,
    check: Check | None = None,
) -> Model:
    """Read a file with what it extends and the parts it names, and check the whole.

    Mappings are merged key by key; anything else, lists too, replaces what stood there. `references` are checked but
    stay names; paths among them come back relative to the working directory. `check` compares keys with each other; a
    key that the model refuses is reported once.

    Raises
    ------
    ConfigError
        Every problem of every file involved, each with its own file, line and key.
    """
    data, origins = read_chain(path, folder)
    refuse_other_kind(data, wanted=kind, path=path)
    problems: list[Problem] = []
    failed = set()
    for key, (part_model, part_folder) in parts.items():
        if isinstance(data, dict) and isinstance(data.get(key), str):
            where, line = origins.get((key,), (str(path), None))
            try:
                data[key] = _part(part_model, data[key], part_folder, Path(where))
            except ConfigError as err:
                problems += at_key(err, path=where, line=line, key=key)
                data[key] = None
                failed.add(key)
    problems += _of_references(data, origins, references)
    problems += [] if check is None else check(data, origins)
    try:
        checked = check_document(model, data, where=str(path), lines={key: place[1] for key, place in origins.items()})
    except ConfigError as err:
        found = [_at_origin(problem, origins) for problem in err.problems if problem.key not in failed]
        known = {(problem.where, problem.key) for problem in found}
        others = [problem for problem in problems if (problem.where, problem.key) not in known]
        raise ConfigError(in_line_order([*found, *others])) from err
    if problems:
        raise ConfigError(in_line_order(problems))
    return checked


def _part(model: type[BaseModel], name: str, folder: Path, named_in: Path) -> Any:
    path = find(name, folder=folder, what="GPU part", option=str(named_in), beside=named_in.parent)
    return load_with_parts(model, path, folder=folder, parts={}, references={}, kind="GPU part").model_dump()


def _of_references(data: Any, origins: Origins, references: References) -> list[Problem]:
    problems: list[Problem] = []
    for key, read in references.items():
        section = data
        for part in key[:-1]:
            section = section.get(part) if isinstance(section, dict) else None
        if isinstance(section, dict) and isinstance(section.get(key[-1]), str):
            where, line = origins[key]
            section[key[-1]] = resolved(section[key[-1]], beside=Path(where).parent)
            try:
                read(section[key[-1]], option=where)
            except ConfigError as err:
                problems += at_key(err, path=where, line=line, key=dotted_key(key))
    return problems


def read_chain(path: Path, folder: Path) -> tuple[Any, Origins]:
    """Read a file with what it extends, unchecked; also where each key stands, as file and line."""
    layers: list[tuple[Path, Any, Lines]] = []
    while True:
        data, lines = read_document(path)
        layers.append((path, data, lines))
        base = data.pop(_EXTENDS, None) if isinstance(data, dict) else None
        if base is None:
            break
        line = lines.get((_EXTENDS,))
        try:
            following = find(str(base), folder=folder, what="file to extend", option=str(path), beside=path.parent)
        except ConfigError as err:
            raise ConfigError(at_key(err, path=path, line=line, key=_EXTENDS)) from err
        if len(layers) >= _CHAIN_MAX or any(following.samefile(layer[0]) for layer in layers):
            expected = f"files that end somewhere, at most {_CHAIN_MAX} in a row"
            found = "goes in a circle"
            raise ConfigError.at(path, found, expected, key=_EXTENDS, line=line)
        path = following
    merged: Any = {}
    origins: Origins = {}
    for layer_path, data, lines in reversed(layers):
        merged = _merged(merged, data)
        origins |= {key: (str(layer_path), line) for key, line in lines.items()}
    return merged, origins


def _merged(base: Any, over: Any) -> Any:
    if isinstance(base, dict) and isinstance(over, dict):
        return base | {key: _merged(base.get(key), value) for key, value in over.items()}
    return over


def _at_origin(problem: Problem, origins: Origins) -> Problem:
    dotted = {dotted_key(key): place for key, place in origins.items()}
    key = problem.key
    while key and key not in dotted:
        key = key.rpartition("[")[0] if key.endswith("]") else key.rpartition(".")[0]
    where = dotted[key][0] if key else problem.where
    return Problem(where=where, line=problem.line, key=problem.key, found=problem.found, expected=problem.expected)


def problem_at(key: Key, origins: Origins, *, found: str, expected: str) -> Problem:
    """Return a problem at a key, with the file and the line of the nearest key above that a file holds."""
    held = next(key[:depth] for depth in range(len(key), -1, -1) if key[:depth] in origins)
    where, line = origins[held]
    return Problem(where=where, line=line, key=dotted_key(key), found=found, expected=expected)


def dotted_key(path: Key) -> str:
    """Return a key within a file as text: ``supply.units[0].joint_mohm``."""
    dotted = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return dotted.removeprefix(".")
