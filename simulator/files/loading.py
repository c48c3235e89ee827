"""Reading files that build on others: by name or path, with ``extends`` and parts that stand in files of their own."""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from telemetry.documents import Lines, check_document, read_document
from telemetry.errors import ConfigError, Problem

Model = TypeVar("Model", bound=BaseModel)
Parts = Mapping[str, tuple[type[BaseModel], Path]]
Origins = dict[tuple[str | int, ...], tuple[str, int]]
_EXTENDS = "extends"
_CHAIN_MAX = 8


def find(name_or_path: str, *, folder: Path, what: str, option: str, beside: Path | None = None) -> Path:
    """Give the path of a file that comes with railwatch, by name, or of any YAML file, by path.

    A relative path inside a file is relative to the folder `beside`.
    """
    if name_or_path.endswith((".yaml", ".yml")):
        path = Path(name_or_path) if beside is None else beside / name_or_path
    else:
        path = folder / f"{name_or_path}.yaml"
    if path.exists():
        return path
    names = sorted(known.stem for known in folder.glob("*.yaml"))
    raise unknown_name(name_or_path, names, what=what, option=option)


def unknown_name(name: str, names: Iterable[str], *, what: str, option: str) -> ConfigError:
    """Give the error for a name that nothing has: which there are, and the one that it resembles."""
    known = list(names)
    nearest = difflib.get_close_matches(name, known, n=1)
    perhaps = f"; perhaps {nearest[0]}" if nearest else ""
    expected = f"{', '.join(known)}, or the path of a YAML file{perhaps}"
    return ConfigError([Problem(where=option, line=None, key=what, found=f"got {name!r}", expected=expected)])


def resolved(name_or_path: str, *, beside: Path) -> str:
    """Give what a file means by a name or a path: a path is relative to the folder `beside` in which the file is."""
    return str(beside / name_or_path) if name_or_path.endswith((".yaml", ".yml")) else name_or_path


def load_with_parts(model: type[Model], path: Path, *, folder: Path, parts: Parts) -> Model:
    """Read a file with what it extends and the parts it names, and check the whole.

    Mappings are merged key by key; anything else, lists too, replaces what stood there.

    Raises
    ------
    ConfigError
        Every problem of every file involved, each with its own file, line and key.
    """
    data, origins = read_chain(path, folder)
    problems: list[Problem] = []
    for key, (part_model, part_folder) in parts.items():
        if isinstance(data, dict) and isinstance(data.get(key), str):
            where, line = origins.get((key,), (str(path), None))
            try:
                data[key] = _part(part_model, data[key], part_folder, Path(where).parent, f"{where}:{line}")
            except ConfigError as err:
                problems += err.problems
                data[key] = None
    try:
        checked = check_document(model, data, where=str(path), lines={key: place[1] for key, place in origins.items()})
    except ConfigError as err:
        failed = {key for key in parts if isinstance(data, dict) and data.get(key) is None}
        found = [problem for problem in err.problems if not (problems and problem.key in failed)]
        raise ConfigError([*problems, *(_at_origin(problem, origins) for problem in found)]) from err
    if problems:
        raise ConfigError(problems)
    return checked


def _part(model: type[BaseModel], name: str, folder: Path, beside: Path, option: str) -> Any:
    path = find(name, folder=folder, what="gpu", option=option, beside=beside)
    data, lines = read_document(path)
    return check_document(model, data, where=str(path), lines=lines).model_dump()


def read_chain(path: Path, folder: Path) -> tuple[Any, Origins]:
    """Read a file with what it extends, unchecked; also where each key stands, as file and line."""
    layers: list[tuple[Path, Any, Lines]] = []
    while True:
        data, lines = read_document(path)
        layers.append((path, data, lines))
        base = data.pop(_EXTENDS, None) if isinstance(data, dict) else None
        if base is None:
            break
        option = f"{path}:{lines.get((_EXTENDS,), 1)}"
        following = find(str(base), folder=folder, what=_EXTENDS, option=option, beside=path.parent)
        if len(layers) >= _CHAIN_MAX or any(following.samefile(layer[0]) for layer in layers):
            expected = f"files that end somewhere, at most {_CHAIN_MAX} in a row"
            problem = Problem(
                where=str(path), line=lines.get((_EXTENDS,)), key=_EXTENDS, found="goes in a circle", expected=expected
            )
            raise ConfigError([problem])
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
    dotted = {_dotted(key): place for key, place in origins.items()}
    key = problem.key
    while key and key not in dotted:
        key = key.rpartition("[")[0] if key.endswith("]") else key.rpartition(".")[0]
    where = dotted[key][0] if key else problem.where
    return Problem(where=where, line=problem.line, key=problem.key, found=problem.found, expected=problem.expected)


def _dotted(path: tuple[str | int, ...]) -> str:
    dotted = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return dotted.removeprefix(".")
