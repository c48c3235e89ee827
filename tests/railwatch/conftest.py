"""Fixtures of the tests of commands."""

import pytest

from tests.railwatch.command_line import Run, command_line


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Calls ``railwatch``; a file whose tests are all of one command has its own."""
    return command_line(monkeypatch, capsys)
