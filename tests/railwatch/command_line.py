"""The command line as a person meets it: words in; exit status, output and errors out."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from railwatch.cli import main

Run = Callable[..., tuple[int, str, str]]


def command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *before: str) -> Run:
    """Return what calls ``railwatch`` with these words before a test's own; no setting of this machine counts."""

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["railwatch", *before, *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    for variable in [name for name in os.environ if name.startswith("RAILWATCH_")]:
        monkeypatch.delenv(variable)
    return call


def objects(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects of an output, one a line."""
    return [json.loads(line) for line in text.splitlines()]
