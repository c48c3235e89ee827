"""The recorder process over what a black box holds at its start."""

import json
from pathlib import Path
from threading import Event as Flag

import pytest

from agent.recorder.black_box import BlackBox
from agent.recorder.entries import BoxEntry, EntryKind, json_entry
from config.models import Config
from railwatch.processes.recorder import main
from railwatch.run_context import DriverKind, RunContext, box_dir, left_dir


def run_once(folder: Path) -> list[str]:
    """Start and end the recorder of a run without samples; return its events."""
    run_dir = folder / "run"
    run_dir.mkdir()
    left_dir(run_dir).mkdir()
    context = RunContext(
        run_dir=run_dir,
        config_json=Config.model_validate({"data_dir": folder / "data"}).model_dump_json(),
        driver=DriverKind.NONE,
        source="none",
        simulated=True,
        kmsg=str(folder / "no-kmsg"),
        started_ns=1,
    )
    stop = Flag()
    stop.set()
    main(context, stop, lambda _: None)
    assert not left_dir(run_dir).exists()
    journal = (context.journal_dir / "recorder.jsonl").read_text(encoding="utf-8")
    return [json.loads(line)["message"] for line in journal.splitlines()]


@pytest.mark.parametrize(
    "entries",
    [
        [BoxEntry(kind=EntryKind.RUN, taken_ns=1, body=b'{"of": "another version"}')],
        [BoxEntry(kind=EntryKind.RUN, taken_ns=1, body=b"no JSON")],
        [
            json_entry(EntryKind.RUN, 1, {"started_ns": 5, "boot": "", "node": "box", "simulated": True, "config": {}}),
            BoxEntry(kind=EntryKind.ROWS, taken_ns=2, body=b"rows packed otherwise"),
            json_entry(EntryKind.STATE, 3, {"utc_ns": 5, "rows": {}, "journals": {}, "window": None}),
        ],
    ],
)
def test_a_black_box_that_cannot_be_read_is_reported_and_keeps_no_recorder_from_starting(
    tmp_path: Path, entries: list[BoxEntry]
) -> None:
    box = BlackBox(box_dir(tmp_path / "data"), 1 << 20)
    box.append(entries[1:] or entries, opening=lambda: entries[:1], keep_from_ns=0)
    box.close()
    (message,) = run_once(tmp_path)
    assert "cannot be read" in message
    assert not list(box_dir(tmp_path / "data").iterdir()), "it would be found at every start"


def test_an_empty_black_box_is_nothing_to_report(tmp_path: Path) -> None:
    assert run_once(tmp_path) == []
