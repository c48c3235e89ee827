"""Policies from files: every problem of every file at once, by file, line and key."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

from rules.policy.document import PolicyDocument
from rules.policy.forbidden import Forbidden, forbidden_reach, forbidden_values
from rules.policy.model import Policy
from telemetry.documents import Lines, check_document, decoded, in_line_order, read_yaml
from telemetry.errors import ConfigError, Problem

# A policy is a page of text; a file a hundred times as long is something else, and slow to parse as YAML.
SIZE_MAX_BYTES = 256 * 1024
SUFFIXES = (".yaml", ".yml")
# heuristic: how many parsed files are kept; 17 are built in, and a site has as many of its own.
_KEPT = 64


def is_folder(path: Path) -> bool:
    """Return True if it is a folder; a path without permission is reported when it is read."""
    try:
        return path.is_dir()
    except OSError:
        return False


def files_in(folder: Path) -> tuple[Path, ...]:
    """Return the policy files of a folder, by name; ConfigError if it cannot be read."""
    try:
        return tuple(sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file()))
    except OSError as err:
        reason = err.strerror or "cannot be read"
        raise ConfigError.at(folder, reason, "a readable folder of policies", key="(folder)") from err


def read_policy(path: Path) -> tuple[Any, Lines]:
    """Return the plain data of a policy file and the line of each key; ConfigError if it cannot be read or is empty."""
    return parse_policy(path, text_of(path))


def parse_policy(path: Path, text: str) -> tuple[Any, Lines]:
    """Return the plain data of the text of a policy file and the line of each key; ConfigError as `read_policy`."""
    data, lines = read_yaml(text, where=str(path))
    if not data:
        found, expected = "nothing in it", "a policy: id, status, why, source, ..."
        raise ConfigError.at(path, found, expected, key="(document)", line=1)
    return data, lines


def policy_problem(path: Path, line: int | None, key: str, found: str, expected: str) -> Problem:
    """Return a problem of a policy file, or of a folder of them."""
    return Problem(where=str(path), line=line, key=key, found=found, expected=expected)


def taken_problem(path: Path, line: int | None, policy_id: str, first: str) -> Problem:
    """Return the problem of an id that another file, `first`, already has."""
    return policy_problem(path, line, "id", f"got {policy_id!r}", f"a unique id; {first} has this one")


def text_of(path: Path) -> str:
    """Return the text of a policy file; ConfigError if it cannot be read, is too large or not UTF-8."""
    try:
        size_bytes = path.stat().st_size
        content = path.read_bytes() if path.is_file() and size_bytes <= SIZE_MAX_BYTES else None
    except OSError as err:
        reason = err.strerror or "cannot be read"
        raise ConfigError.at(path, reason, "a readable YAML file", key="(file)") from err
    if content is None and size_bytes > SIZE_MAX_BYTES:
        raise ConfigError.at(path, f"{size_bytes} bytes", f"at most {SIZE_MAX_BYTES} bytes", key="(file)")
    if content is None:
        raise ConfigError.at(path, "not a regular file", "a readable YAML file", key="(file)")
    return decoded(content, where=str(path))


class Layer(StrEnum):
    """Layer of policies; each layer replaces policies of the layers before it by id."""

    BUILTIN = "built-in"
    SITE = "site"
    NODE = "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layered:
    """A policy in force, its layer, and the one that it replaces; None if it is the first of its id."""

    policy: Policy
    layer: Layer
    replaces: "Layered | None" = None


def builtin_policy_files() -> tuple[Path, ...]:
    """Return the files of the built-in policies, by name."""
    return files_in(Path(__file__).parents[1] / "builtin")


def load_builtin_policies() -> tuple[Policy, ...]:
    """Load the built-in policies."""
    return load_policies(builtin_policy_files())


def load_layers(layers: Mapping[Layer, Sequence[Path]]) -> tuple[Layered, ...]:
    """Load every layer: the highest layer's policies first, and of each id the highest layer's only.

    Raises
    ------
    ConfigError
        With every problem of every layer, as from `load_policies`.
    """
    problems: list[Problem] = []
    in_force: dict[str, Layered] = {}
    for layer in Layer:
        try:
            loaded = load_policies(layers.get(layer, ()))
        except ConfigError as err:
            problems.extend(err.problems)
            continue
        own = {item.id: Layered(policy=item, layer=layer, replaces=in_force.get(item.id)) for item in loaded}
        in_force = {**own, **{name: below for name, below in in_force.items() if name not in own}}
    if problems:
        raise ConfigError(problems)
    return tuple(in_force.values())


def load_policies(paths: Iterable[Path]) -> tuple[Policy, ...]:
    """Load policies from files and folders of files, in the order given; a folder's files come by name.

    Raises
    ------
    ConfigError
        With every problem of every file: it cannot be read, is not YAML, has an unknown key, a wrong unit or an
        impossible value, an unknown fact in its condition, lacks a case that fires or one that expects none, requests
        what no policy may, or its id is taken.
    """
    problems: list[Problem] = []
    files: list[Path] = []
    for path in paths:
        try:
            found = files_in(path) if is_folder(path) else (path,)
        except ConfigError as err:
            problems.extend(err.problems)
            continue
        if not found:
            problems.append(
                policy_problem(path, None, "(folder)", "no policy in it", f"files named *{' or *'.join(SUFFIXES)}")
            )
        files.extend(found)
    policies: list[Policy] = []
    first_with: dict[str, str] = {}
    for path in files:
        try:
            policy, line = _load(path, text_of(path))
        except ConfigError as err:
            problems.extend(err.problems)
            continue
        place = str(path) if line is None else f"{path}:{line}"
        if policy.id in first_with:
            problems.append(taken_problem(path, line, policy.id, first_with[policy.id]))
        first_with.setdefault(policy.id, place)
        policies.append(policy)
    if problems:
        raise ConfigError(problems)
    return tuple(policies)


# A process that is forked has the policies that its parent loaded; a file that was changed is another text.
@lru_cache(maxsize=_KEPT)
def _load(path: Path, text: str) -> tuple[Policy, int | None]:
    data, lines = parse_policy(path, text)
    refused = [_forbidden(path, item, lines) for item in forbidden_values(data)]
    try:
        document = check_document(PolicyDocument, data, where=str(path), lines=lines)
    except ConfigError as err:
        ours = {problem.key for problem in refused}
        others = (problem for problem in err.problems if problem.key not in ours)
        raise ConfigError(in_line_order([*refused, *others])) from err
    policy = document.policy(where=str(path))
    refused += [_forbidden(path, item, lines) for item in forbidden_reach(policy)]
    if refused:
        raise ConfigError(in_line_order(refused))
    return policy, lines.get(("id",))


def _forbidden(path: Path, item: Forbidden, lines: Lines) -> Problem:
    place = next((item.key[:depth] for depth in range(len(item.key), -1, -1) if item.key[:depth] in lines), ())
    return policy_problem(path, lines.get(place), ".".join(map(str, item.key)), item.found, item.expected)
