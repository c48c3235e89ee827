"""Policies from files: every problem of every file at once, by file, line and key."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from rules.policy.document import PolicyDocument
from rules.policy.files import SUFFIXES, files_in, is_folder, parse_policy, policy_problem, taken_problem, text_of
from rules.policy.forbidden import Forbidden, forbidden_reach, forbidden_values
from rules.policy.model import Policy
from telemetry.documents import Lines, check_document, in_line_order
from telemetry.errors import ConfigError, Problem

# heuristic: how many parsed files are kept; 17 are built in, and a site has as many of its own.
_KEPT = 64


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
