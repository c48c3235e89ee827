"""The generated references are in step with the code, and a stale one is found."""

from pathlib import Path

from railwatch.reference.generate import ROOT, signals_markdown, stale_files
from telemetry.signals import CATALOGUE


def test_the_committed_references_are_in_step() -> None:
    assert list(stale_files(ROOT)) == []


def test_a_file_that_is_missing_or_differs_is_stale(tmp_path: Path) -> None:
    stale = stale_files(tmp_path)
    for path, text in stale.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    assert stale_files(tmp_path) == {}
    changed = next(iter(stale))
    (tmp_path / changed).write_text("edited by hand", encoding="utf-8")
    assert list(stale_files(tmp_path)) == [changed]


def test_every_signal_is_in_the_reference() -> None:
    text = signals_markdown()
    assert all(f"| `{signal.name}` |" in text for signal in CATALOGUE)
