"""The sample file and the reference page, generated from the models."""

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from railwatch.config.models import Config


def sample_yaml() -> str:
    """Give a configuration file with every key at its default, commented out."""
    lines = [
        "# railwatch configuration: every key with its default. Uncomment what you change.",
        "# Every key can also be set by the environment: RAILWATCH_STORE__URL for store.url.",
        "# Durations and sizes carry their unit: 200ms, 30s, 10m, 1h, 7d; 512KiB, 64MiB, 2GiB.",
    ]
    for name, field in Config.model_fields.items():
        section = _section_of(field)
        lines.append("")
        if section is None:
            lines += [f"# {field.description}", f"#{name}: {_default(field, Config, name)}"]
            continue
        lines += [f"# {_summary(section)}", f"#{name}:"]
        for key, inner in section.model_fields.items():
            lines += [f"  # {inner.description}", f"  #{key}: {_default(inner, section, key)}"]
    return "\n".join(lines) + "\n"


def reference_markdown() -> str:
    """Give the reference of every key as Markdown tables."""
    lines = [
        "# Configuration reference",
        "",
        "Generated from the models by `make generate`; do not edit.",
        "",
        "Values come from the defaults, then the file given with `--config`, then the environment, where",
        "`RAILWATCH_STORE__URL` sets `store.url`. `railwatch config check FILE` reports every problem of a file at",
        "once; `railwatch config sample` prints a file to start from.",
        "",
        *_table("", [(name, field, Config) for name, field in Config.model_fields.items() if not _section_of(field)]),
    ]
    for name, field in Config.model_fields.items():
        section = _section_of(field)
        if section is not None:
            rows = [(key, inner, section) for key, inner in section.model_fields.items()]
            lines += ["", f"## `{name}`", "", _summary(section), "", *_table(name, rows)]
    return "\n".join(lines) + "\n"


def _table(section: str, rows: list[tuple[str, FieldInfo, type[BaseModel]]]) -> Iterator[str]:
    yield "| key | default | meaning |"
    yield "| --- | --- | --- |"
    for key, field, model in rows:
        dotted = f"{section}.{key}".removeprefix(".")
        allowed = _choices(field)
        meaning = f"{field.description}{allowed}".replace("|", "\\|")
        yield f"| `{dotted}` | `{_default(field, model, key)}` | {meaning} |"


def _choices(field: FieldInfo) -> str:
    annotation = field.annotation
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " One of " + ", ".join(f"`{member.value}`" for member in annotation) + "."
    return ""


def _default(field: FieldInfo, model: type[BaseModel], name: str) -> str:
    if field.default_factory is not None:
        return "~/.local/state/railwatch"
    # Through the model, so that durations and sizes come out with their unit.
    dumped: Any = model.model_construct().model_dump(mode="json", include={name})[name]
    if isinstance(field.default, Path):
        dumped = str(field.default)
    text: str = yaml.safe_dump(dumped, default_flow_style=True, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...").strip()


def _section_of(field: FieldInfo) -> type[BaseModel] | None:
    annotation = field.annotation
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _summary(section: type[BaseModel]) -> str:
    return (section.__doc__ or "").strip().splitlines()[0]
