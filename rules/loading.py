"""Policies from files: every problem of every file at once, by file, line and key."""

from collections.abc import Iterable
from pathlib import Path

from rules.document import PolicyDocument
from rules.policy import Policy
from telemetry.documents import check_document, read_yaml
from telemetry.errors import ConfigError, Problem

# A policy is a page of text; a file a hundred times as long is something else, and YAML would take its time over it.
SIZE_MAX_BYTES = 256 * 1024
SUFFIXES = (".yaml", ".yml")


def builtin_policy_files() -> tuple[Path, ...]:
    """Give the policies that come with railwatch, by name."""
    return _files_in(Path(__file__).parent / "builtin")


def load_builtin_policies() -> tuple[Policy, ...]:
    """Load the policies that come with railwatch."""
    return load_policies(builtin_policy_files())


def load_policies(paths: Iterable[Path]) -> tuple[Policy, ...]:
    """Load policies from files and folders of files, in the order given; a folder's files come by name.

    Raises
    ------
    ConfigError
        With every problem of every file: it cannot be read, is not YAML, has an unknown key, a wrong unit or an
        impossible value, lacks a case that fires or one that stays quiet, or its id is taken.
    """
    problems: list[Problem] = []
    files: list[Path] = []
    for path in paths:
        found = _files_in(path) if path.is_dir() else (path,)
        if not found:
            problems.append(
                _problem(path, None, "(folder)", "no policy in it", f"files named *{' or *'.join(SUFFIXES)}")
            )
        files.extend(found)
    policies: list[Policy] = []
    first_with: dict[str, str] = {}
    for path in files:
        try:
            policy, line = _load(path)
        except ConfigError as err:
            problems.extend(err.problems)
            continue
        place = str(path) if line is None else f"{path}:{line}"
        if policy.id in first_with:
            taken = f"an id of its own; {first_with[policy.id]} has this one"
            problems.append(_problem(path, line, "id", f"got {policy.id!r}", taken))
        first_with.setdefault(policy.id, place)
        policies.append(policy)
    if problems:
        raise ConfigError(problems)
    return tuple(policies)


def _load(path: Path) -> tuple[Policy, int | None]:
    try:
        size_bytes = path.stat().st_size
        text = path.read_text(encoding="utf-8") if size_bytes <= SIZE_MAX_BYTES else None
    except OSError as err:
        reason = err.strerror or "cannot be read"
        raise ConfigError([_problem(path, None, "(file)", reason, "a readable YAML file")]) from err
    except UnicodeDecodeError as err:
        raise ConfigError([_problem(path, None, "(file)", "not UTF-8 text", "a readable YAML file")]) from err
    if text is None:
        limit = f"at most {SIZE_MAX_BYTES} bytes"
        raise ConfigError([_problem(path, None, "(file)", f"{size_bytes} bytes", limit)])
    data, lines = read_yaml(text, where=str(path))
    document = check_document(PolicyDocument, data, where=str(path), lines=lines)
    return document.policy(where=str(path)), lines.get(("id",))


def _files_in(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file()))


def _problem(path: Path, line: int | None, key: str, found: str, expected: str) -> Problem:
    return Problem(where=str(path), line=line, key=key, found=found, expected=expected)
