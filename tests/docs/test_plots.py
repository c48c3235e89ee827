"""The scripts of plots import what exists; `make plots` runs them, which takes minutes."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "docs/plots").glob("*.py"))
OWN = ("evaluation", "simulator", "telemetry")


def own_imports(script: Path) -> list[tuple[str, str]]:
    """Return the modules and names that a script imports from this repository."""
    nodes = [
        node for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom)
    ]
    return [
        (node.module, name.name) for node in nodes if node.module and node.module.startswith(OWN) for name in node.names
    ]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_every_name_that_a_plot_imports_exists(script: Path) -> None:
    imported = own_imports(script)
    assert imported
    assert [pair for pair in imported if not hasattr(import_module(pair[0]), pair[1])] == []
