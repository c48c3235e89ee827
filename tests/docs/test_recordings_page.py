"""The page on the format of recordings: its file can be read, and its words are those of the code."""

import json
from pathlib import Path

import numpy as np
import pytest

from telemetry.entities import EntityKind, NominalSource
from telemetry.errors import ConfigError
from telemetry.ratings import RatingSource
from telemetry.recording import FORMAT, read_recording
from telemetry.recording_files import COLUMNS
from telemetry.signals import signal

PAGE = Path("docs/reference/recordings.md").read_text()
SMALLEST = PAGE.partition("```text\n")[2].partition("```")[0]


def test_the_smallest_file_is_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(SMALLEST)
    read = read_recording(path)
    assert {table.kind: table.signals for table in read.tables} == {
        EntityKind.GPU: ("power_w",),
        EntityKind.SUPPLY: ("voltage_v", "current_a"),
    }
    assert [signal(table.kind, name).unit for table in read.tables for name in table.signals] == ["W", "V", "A"]


def test_the_header_of_the_page_is_read(tmp_path: Path) -> None:
    header = json.loads(PAGE.partition("```json\n")[2].partition("```")[0])
    path = tmp_path / "mine.csv"
    path.write_text(f"{SMALLEST}# railwatch {json.dumps(header)}\n")
    read = read_recording(path)
    assert [(table.name, [entity.name for entity in table.entities]) for table in read.tables] == [("rails", ["PSU 1"])]
    assert read.topology.edges == (("node:box", "supply:PSU1"), ("supply:PSU1", "gpu:0"))


def test_a_bad_row_is_refused_with_its_number_and_column(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(SMALLEST.replace("gpu,0,power_w,608.0", "card,0,power_w,608.0"))
    with pytest.raises(ConfigError, match=r"mine\.csv:\d+: kind: got 'card'"):
        read_recording(path)


def test_the_page_names_what_the_code_knows() -> None:
    assert f"`format` | {FORMAT}" in PAGE
    for name in (*COLUMNS, *EntityKind, *NominalSource, *RatingSource):
        assert f"`{name}`" in PAGE


@pytest.mark.parametrize("with_header", [False, True])
def test_values_are_held_at_a_tick_and_end_at_an_empty_one(tmp_path: Path, *, with_header: bool) -> None:
    path = tmp_path / "mine.csv"
    rows = [
        "supply,PSU1,voltage_v,54.1",
        "tick,{},,",
        "supply,PSU1,voltage_v,",
        "tick,{},,",
        "supply,PSU1,voltage_v,54.1",
    ]
    table = "rails" if with_header else "supply"
    lines = [f"{1_795_420_800_000_000_000 + at},{row.format(table)}," for at, row in enumerate(rows)]
    header = json.loads(PAGE.partition("```json\n")[2].partition("```")[0])
    end = [f"# railwatch {json.dumps(header)}"] if with_header else []
    path.write_text("\n".join([",".join(COLUMNS), *lines, *end]) + "\n")
    (frame,) = read_recording(path).frames()
    volts = frame.spec.signals.index("voltage_v")
    assert np.array_equal(frame.values[:, 0, volts], [54.1, 54.1, np.nan, np.nan, 54.1], equal_nan=True)
    assert frame.fresh[:, 0, volts].tolist() == [True, False, False, False, True]
