"""Files of a few keys for people: what they are, and each number with its source."""

from collections.abc import Sequence

from pydantic import BaseModel
from rich.console import Console
from rich.markup import escape

from railwatch.cli.printing import print_table
from simulator.files.remarks import SourcedNumber


def print_values(kind: str, model: BaseModel) -> None:
    """Print what a part, a workload or a rack is, and what of it is no number."""
    fields = model.model_dump(mode="json")
    print_heading(kind, str(fields["name"]), str(fields.get("description", "")))
    text = [
        (key, ", ".join(value) if isinstance(value, list) else str(value))
        for key, value in fields.items()
        if key not in ("name", "description") and _is_text(value)
    ]
    if text:
        print_table("", ("key", "value"), text)


def print_heading(kind: str, name: str, description: str) -> None:
    """Print the name and the whole description."""
    console = Console(highlight=False)
    console.print(f"[bold]{escape(name)}[/]  [dim]{kind}[/]")
    if description:
        console.print(escape(" ".join(description.split())))


def print_numbers(numbers: Sequence[SourcedNumber]) -> None:
    """Print every number with the remark that stands behind it, grouped by file."""
    for file in dict.fromkeys(item.file for item in numbers):
        rows = [(item.key, item.value, item.remark or "no source") for item in numbers if item.file == file]
        print_table(f"\n{file.name}", ("key", "value", "where it comes from"), rows)


def _is_text(value: object) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(part, str) for part in value)
    return isinstance(value, str)
