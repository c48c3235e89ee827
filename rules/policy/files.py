"""The files of policies: which there are, and what stands in one, before anybody asks what it means."""

from pathlib import Path
from typing import Any

from telemetry.documents import Lines, decoded, read_yaml
from telemetry.errors import ConfigError, Problem

# A policy is a page of text; a file a hundred times as long is something else, and YAML would take its time over it.
SIZE_MAX_BYTES = 256 * 1024
SUFFIXES = (".yaml", ".yml")


def is_folder(path: Path) -> bool:
    """Return whether it is a folder; what nobody may look at is told of where it is read."""
    try:
        return path.is_dir()
    except OSError:
        return False


def files_in(folder: Path) -> tuple[Path, ...]:
    """Return the policies of a folder, by name; ConfigError where it cannot be read."""
    try:
        return tuple(sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file()))
    except OSError as err:
        reason = err.strerror or "cannot be read"
        raise ConfigError([policy_problem(folder, None, "(folder)", reason, "a readable folder of policies")]) from err


def read_policy(path: Path) -> tuple[str, Any, Lines]:
    """Return the text of a policy, the plain data in it and their lines; ConfigError where there are none."""
    text = _text_of(path)
    data, lines = read_yaml(text, where=str(path))
    if not data:
        found, expected = "nothing in it", "a policy: id, status, why, source, ..."
        raise ConfigError([policy_problem(path, 1, "(document)", found, expected)])
    return text, data, lines


def policy_problem(path: Path, line: int | None, key: str, found: str, expected: str) -> Problem:
    """Return a problem of a policy file, or of a folder of them."""
    return Problem(where=str(path), line=line, key=key, found=found, expected=expected)


def taken_problem(path: Path, line: int | None, policy_id: str, first: str) -> Problem:
    """Return that another file, `first`, has the id of this one."""
    return policy_problem(path, line, "id", f"got {policy_id!r}", f"an id of its own; {first} has this one")


def _text_of(path: Path) -> str:
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
        raise ConfigError([policy_problem(path, None, "(file)", "no ordinary file", "a readable YAML file")])
    return decoded(content, where=str(path))
