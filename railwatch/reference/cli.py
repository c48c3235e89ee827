"""Reference page of the command line, generated from the commands."""

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import typer

from railwatch.cli.app import whole_app

WIDTH = 116
EXIT_STATUSES = (
    ("0", "done"),
    ("1", "a check or a case failed, nothing was found, or a process was restarted"),
    ("2", "wrong use or bad input; one line per problem with file, line, key and what was expected"),
    ("3", "something is missing in the environment: a port, a folder, a running railwatch"),
    ("130", "interrupted by Ctrl-C; `railwatch up` stops on Ctrl-C and exits with 0 or 1"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """Option or argument of a command, with its meaning and its default as text."""

    names: tuple[str, ...]
    is_option: bool
    takes_value: bool
    value_name: str
    required: bool
    default: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CliCommand:
    """Command; `path` are the names after ``railwatch``."""

    path: tuple[str, ...]
    help: str
    example: str
    parameters: tuple[Parameter, ...]


def commands() -> tuple[CliCommand, ...]:
    """Return every command, in the order of the help."""
    root: Any = typer.main.get_command(whole_app())
    return tuple(_leaves(root, ()))


def cli_markdown() -> str:
    """Return the reference of every command as Markdown."""
    lines = [
        "# Command reference",
        "",
        "Generated from the command line by `make generate`; do not edit.",
        "",
        "`--json` prints one JSON object per line on standard output and nothing else; messages for people go to",
        "standard error. The objects of records are described in [records](records.md).",
        "Durations carry their unit: `200ms`, `30s`, `10m`, `1h`, `7d`.",
        "",
        "## Exit statuses",
        "",
        "| status | meaning |",
        "| --- | --- |",
        *(f"| {status} | {meaning} |" for status, meaning in EXIT_STATUSES),
    ]
    for command in commands():
        lines += ["", f"## `railwatch {' '.join(command.path)}`", "", *wrap(command.help, WIDTH)]
        if command.parameters:
            lines += ["", "| parameter | default | meaning |", "| --- | --- | --- |"]
            lines += [_row(parameter) for parameter in command.parameters]
        if command.example:
            lines += ["", "```sh", command.example, "```"]
    return "\n".join(lines) + "\n"


def _leaves(group: Any, path: tuple[str, ...]) -> Iterator[CliCommand]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            if command.invoke_without_command:
                yield _command(command, (*path, name))
            yield from _leaves(command, (*path, name))
        else:
            yield _command(command, (*path, name))


def _command(command: Any, path: tuple[str, ...]) -> CliCommand:
    return CliCommand(
        path=path,
        help=" ".join((command.help or "").split()),
        example=(command.epilog or "").removeprefix("Example: "),
        parameters=tuple(_parameter(item) for item in command.params if not getattr(item, "hidden", False)),
    )


def _parameter(item: Any) -> Parameter:
    is_option = item.param_type_name == "option"
    is_flag = bool(getattr(item, "is_flag", False))
    value_name = item.metavar or str(item.name).upper()
    plain = item.default is None or is_flag
    return Parameter(
        names=tuple(item.opts) if is_option else (value_name,),
        is_option=is_option,
        takes_value=is_option and not is_flag,
        value_name=value_name,
        required=bool(item.required),
        default="" if plain else f"`{item.default}`",
        meaning=item.help or "",
    )


def _row(parameter: Parameter) -> str:
    written = ", ".join(parameter.names)
    if parameter.takes_value:
        written += f" {parameter.value_name}"
    default = "required" if parameter.required else parameter.default
    return f"| `{written}` | {default} | {parameter.meaning} |".replace("|  |", "| |")
