"""The sample file and the reference page, generated from the models."""

import dataclasses
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, get_type_hints

import yaml
from pydantic import BaseModel, TypeAdapter

from config.models import Config

_SAMPLE_COLUMNS = 110
# Text for a default that depends on the user.
_DATA_DIR = "~/.local/state/railwatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Key, or section of keys; `default` is None for a section."""

    key: str
    text: str
    default: str | None
    children: tuple["Entry", ...] = ()


def entries() -> tuple[Entry, ...]:
    """Return every key of the configuration as a tree, in the order of the models."""
    return tuple(_entries(Config, TypeAdapter(Config).dump_python(Config(), mode="json")))


def sample_yaml() -> str:
    """Return a configuration file with every key at its default, commented out."""
    lines = [
        "# railwatch configuration: every key with its default. Uncomment what you change.",
        "# Every key can also be set by the environment: RAILWATCH_STORE__URL for store.url.",
        "# Durations and sizes carry their unit: 200ms, 30s, 10m, 1h, 7d; 512KiB, 64MiB, 2GiB.",
    ]
    for entry in entries():
        lines += ["", *_sample_lines(entry, "")]
    return "\n".join(lines) + "\n"


def reference_markdown() -> str:
    """Return the reference of every key as Markdown tables."""
    lines = [
        "# Configuration reference",
        "",
        "Generated from the models by `make generate`; do not edit.",
        "",
        "Values come from the defaults, then the file given with `--config`, then the environment, where",
        "`RAILWATCH_STORE__URL` sets `store.url`. `railwatch config check FILE` reports every problem of a file at",
        "once; `railwatch config sample` prints a file to start from.",
    ]
    top = entries()
    lines += ["", *_table("", [entry for entry in top if not entry.children])]
    for entry in top:
        lines += _section_lines(entry.key, entry)
    return "\n".join(lines) + "\n"


def _sample_lines(entry: Entry, indent: str) -> Iterator[str]:
    yield from textwrap.wrap(entry.text, _SAMPLE_COLUMNS, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")
    if not entry.children:
        yield f"{indent}#{entry.key}: {entry.default}"
        return
    yield f"{indent}#{entry.key}:"
    for child in entry.children:
        yield from _sample_lines(child, f"{indent}  ")


def _section_lines(name: str, entry: Entry) -> list[str]:
    if not entry.children:
        return []
    lines = ["", f"## `{name}`", "", entry.text]
    own = [child for child in entry.children if not child.children]
    if own:
        lines += ["", *_table(name, own)]
    for child in entry.children:
        lines += _section_lines(f"{name}.{child.key}", child)
    return lines


def _table(section: str, rows: list[Entry]) -> Iterator[str]:
    yield "| key | default | meaning |"
    yield "| --- | --- | --- |"
    for entry in rows:
        dotted = f"{section}.{entry.key}".removeprefix(".")
        meaning = entry.text.replace("|", "\\|")
        yield f"| `{dotted}` | `{entry.default}` | {meaning} |"


def _entries(section: Any, defaults: dict[str, Any]) -> Iterator[Entry]:
    notes = _notes(section)
    for key, annotation, description in _fields(section):
        value = defaults[key]
        kind = annotation if isinstance(annotation, type) else None
        if kind is not None and (issubclass(kind, BaseModel) or dataclasses.is_dataclass(kind)):
            summary = inspect.cleandoc(kind.__doc__ or "").splitlines()[0]
            yield Entry(key=key, text=summary, default=None, children=tuple(_entries(kind, value)))
            continue
        text = description or notes.get(key, "")
        yield Entry(key=key, text=f"{text}{_choices(annotation)}", default=_default(key, value))


def _fields(section: Any) -> Iterator[tuple[str, Any, str]]:
    if issubclass(section, BaseModel):
        for key, model_field in section.model_fields.items():
            yield key, model_field.annotation, _sentence(model_field.description or "")
        return
    hints = get_type_hints(section)
    for field in dataclasses.fields(section):
        yield field.name, hints[field.name], ""


def _notes(section: Any) -> dict[str, str]:
    """Return the text of each parameter in the numpydoc docstrings of a class and those that it extends."""
    notes: dict[str, str] = {}
    current: list[str] = []
    texts = (inspect.cleandoc(one.__doc__ or "").partition("----------\n")[2] for one in section.__mro__)
    for line in (line for text in texts for line in text.splitlines()):
        if line and not line.startswith(" "):
            current = line.split(", ")
        for name in current if line.startswith(" ") else ():
            notes[name] = f"{notes.get(name, '')} {line.strip()}".strip()
    return notes


def _sentence(text: str) -> str:
    """Return a description as a sentence: capital letter, full stop."""
    return text if not text else f"{text[0].upper()}{text[1:].removesuffix('.')}."


def _choices(annotation: Any) -> str:
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " One of " + ", ".join(f"`{member.value}`" for member in annotation) + "."
    return ""


def _default(key: str, value: Any) -> str:
    if key == "data_dir":
        return _DATA_DIR
    text: str = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...").strip()
