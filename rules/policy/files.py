"""Files of policies: found in folders, and read as plain data."""

from pathlib import Path
from typing import Any

from telemetry.documents import Lines, decoded, read_yaml
from telemetry.errors import ConfigError, Problem

# A policy is a page of text; a file a hundred times as long is something else, and slow to parse as YAML.
SIZE_MAX_BYTES = 256 * 1024
SUFFIXES = (".yaml", ".yml")


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
        raise ConfigError([policy_problem(folder, None, "(folder)", reason, "a readable folder of policies")]) from err


def read_policy(path: Path) -> tuple[Any, Lines]:
    """Return the plain data of a policy file and the line of each key; ConfigError if it cannot be read or is empty."""
    return parse_policy(path, text_of(path))


def parse_policy(path: Path, text: str) -> tuple[Any, Lines]:
    """Return the plain data of the text of a policy file and the line of each key; ConfigError as `read_policy`."""
    data, lines = read_yaml(text, where=str(path))
    if not data:
        found, expected = "nothing in it", "a policy: id, status, why, source, ..."
        raise ConfigError([policy_problem(path, 1, "(document)", found, expected)])
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
        raise ConfigError([policy_problem(path, None, "(file)", reason, "a readable YAML file")]) from err
    if content is None and size_bytes > SIZE_MAX_BYTES:
        raise ConfigError(
            [policy_problem(path, None, "(file)", f"{size_bytes} bytes", f"at most {SIZE_MAX_BYTES} bytes")]
        )
    if content is None:
        raise ConfigError([policy_problem(path, None, "(file)", "not a regular file", "a readable YAML file")])
    return decoded(content, where=str(path))
