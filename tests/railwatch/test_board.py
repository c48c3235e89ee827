"""``railwatch board show``: over a recording, over a data folder, and what it refuses."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from physics.board_curve import RATIOS
from railwatch.cli.board_plot import curve_plot
from railwatch.operator.board_curves import CurvePoint, boards_of_store
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import Frame, joined_frames
from telemetry.recording import RecordingMeta, read_recording, write_recording
from tests.analytics.board_curve.rows import GPUS, IDLE_W, MAX_MHZ, Rows
from tests.analytics.board_curve.test_kept import taught
from tests.railwatch.command_line import Run, command_line, objects

NODE = Entity(kind=EntityKind.NODE, key="box", name="box")
TOPOLOGY = Topology(entities=(NODE, *GPUS), edges=tuple((NODE.id, gpu.id) for gpu in GPUS))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(monkeypatch, capsys, "board", "show")


def varied() -> list[Frame]:
    rows = Rows()
    frames = [frame for ratio in (1.0, 0.8, 0.9) for frame in rows.load(40.0, ratio=ratio)]
    return [*frames, *rows.idle(12.0, power_w=70.0)]


def recorded(path: Path, frames: Iterable[Frame]) -> Path:
    clocks = {gpu.key: [210.0, MAX_MHZ] for gpu in GPUS}
    meta = RecordingMeta(node="box", simulated=True, config={"supported_mhz": clocks})
    write_recording(path, frames, topology=TOPOLOGY, meta=meta)
    return path


def data_dir(folder: Path, blob: bytes | None) -> Path:
    (folder / "records").mkdir(parents=True)
    if blob is not None:
        (folder / "boards.json").write_bytes(blob)
    return folder


def test_all_boards_of_a_recording_in_one_table(run: Run, tmp_path: Path) -> None:
    status, out, _ = run("--recording", recorded(tmp_path / "a.parquet", varied()))
    assert status == 0
    assert "A100 SXM4" in out
    assert out.count("learnt from 2 steps of the clock") == 2
    assert "70 W seen" in out


def test_one_board_with_its_clocks_bounds_sources_and_a_plot(run: Run, tmp_path: Path) -> None:
    path = recorded(tmp_path / "a.parquet", varied())
    status, out, _ = run("gpu1", "--recording", path)
    assert status == 0
    assert "GPU 1, NVIDIA A100-SXM4-80GB: learnt from 2 steps of the clock" in out
    rows = [line for line in out.splitlines() if " MHz " in line and " to " in line]
    assert len(rows) == len(RATIOS)
    assert "seen" in rows[0]
    assert "learnt, between clocks that were seen" in rows[1]
    assert "table of parts" in rows[-1]
    assert "o seen   * predicted   : 95 % bounds" in out
    for name in ("GPU 1", "1", GPUS[1].key, GPUS[1].id):
        assert run(name, "--recording", path)[1] == out


def test_json_has_one_object_per_board_and_ordered_bounds(run: Run, tmp_path: Path) -> None:
    status, out, _ = run("--recording", recorded(tmp_path / "a.parquet", varied()), "--json")
    assert status == 0
    first, second = objects(out)
    assert (first["entity_id"], second["name"], first["steps"], first["idle_seen"]) == (GPUS[0].id, "gpu1", 2, True)
    assert [point["clock_mhz"] for point in first["curve"]] == [round(ratio * MAX_MHZ, 1) for ratio in RATIOS]
    assert all(point["low_w"] <= point["power_w"] <= point["high_w"] for point in first["curve"])
    assert {point["from"] for point in first["curve"]} == {"seen", "learnt", "table"}
    watts = [point["power_w"] for point in first["curve"]]
    assert watts == sorted(watts)


def test_a_data_folder_shows_what_the_last_run_saved(run: Run, tmp_path: Path) -> None:
    status, out, _ = run("--data-dir", data_dir(tmp_path / "data", taught().learnt(0)()), "--json")
    assert status == 0
    assert [one["steps"] for one in objects(out)] == [2, 2]


def test_without_a_load_the_curve_is_that_of_the_board_power(run: Run, tmp_path: Path) -> None:
    path = recorded(tmp_path / "a.csv", Rows().idle(12.0))
    out = run("gpu0", "--recording", path)[1]
    assert "table of parts" in out
    assert "shown for 400 W at 1410 MHz (board power of the data sheet, no load was seen)" in out


def test_an_unknown_gpu_is_refused_with_the_known_ones(run: Run, tmp_path: Path) -> None:
    status, out, err = run("gpu9", "--recording", recorded(tmp_path / "a.parquet", varied()))
    assert (status, out) == (1, "")
    assert err == "railwatch: gpu9: no such GPU; expected one of gpu0, gpu1\n"


@pytest.mark.parametrize(
    ("blob", "reason"),
    [
        (None, "no power curve of a GPU yet; expected a run with GPUs, which saves them every minute"),
        (b"{", "damaged: (file): Invalid JSON"),
        (b'{"version": 9, "boards": {}}', "damaged: version 9, expected 1"),
        (b'{"version": 1, "boards": {"gpu:a": {}}}', "damaged: boards.gpu:a.model: Field required"),
    ],
)
def test_a_data_folder_without_usable_curves_is_one_line(
    run: Run, tmp_path: Path, blob: bytes | None, reason: str
) -> None:
    status, out, err = run("--data-dir", data_dir(tmp_path / "data", blob))
    assert (status, out, err.count("\n")) == (3, "", 1)
    assert reason in err


def test_no_folder_and_no_recording_are_one_line(run: Run, tmp_path: Path) -> None:
    status, _, err = run("--data-dir", tmp_path / "nowhere")
    assert (status, err.count("\n")) == (3, 1)
    assert "no such folder" in err
    status, _, err = run("--recording", tmp_path / "nowhere.parquet")
    assert (status, err.count("\n")) == (2, 1)


def test_a_recording_without_gpus_is_one_line(run: Run, tmp_path: Path) -> None:
    frames = [Frame(spec=one.spec, time_ns=one.time_ns, values=one.values, fresh=one.fresh) for one in varied()[:1]]
    path = recorded(tmp_path / "a.csv", frames)
    text = path.read_text(encoding="utf-8").replace("NVIDIA A100-SXM4-80GB", "").replace('\\"model\\"', '\\"colour\\"')
    path.write_text(text, encoding="utf-8")
    status, _, err = run("--recording", path)
    assert (status, err.count("\n")) == (3, 1)
    assert "no GPU with a model name and clocks" in err


def test_a_store_keeps_each_change_once_and_shows_the_same_board(tmp_path: Path) -> None:
    whole = joined_frames(varied())
    values = whole.values.copy()
    values[1:][whole.values[1:] == whole.values[:-1]] = float("nan")

    class Store:
        def frames(self, *, start_ns: int, stop_ns: int) -> Iterator[Frame]:
            del start_ns, stop_ns
            yield from ()

        def series(self, kind: EntityKind, signals: object, *, start_ns: int, stop_ns: int, step_ns: int = 0) -> Frame:
            del kind, signals, start_ns, stop_ns, step_ns
            return Frame(spec=whole.spec, time_ns=whole.time_ns, values=values, fresh=whole.fresh)

    first, _ = boards_of_store(Store())
    assert first.state.curve.steps == 2
    assert first.state.max_mhz == 1410.0


def test_a_plot_is_text_of_less_than_eighty_columns_with_a_mark_per_clock() -> None:
    points = [
        CurvePoint(
            clock_mhz=100.0 * place,
            power_w=20.0 * place,
            low_w=15.0 * place,
            high_w=25.0 * place,
            seen_s=3.0 if place == 9 else 0.0,
            source="seen",
        )
        for place in range(1, 18)
    ]
    lines = curve_plot(points)
    assert max(map(len, lines)) < 80
    body = "".join(lines[:-3])
    assert (body.count("o"), body.count("*")) == (1, 16)
    assert "425 W" in lines[0]
    assert lines[-2].split() == ["100", "1700", "MHz"]


def test_a_recording_made_by_the_simulator_is_shown(run: Run, tmp_path: Path) -> None:
    """Boards of a recording whose clocks are in its metadata and one whose clocks are not."""
    path = recorded(tmp_path / "a.parquet", varied())
    read = read_recording(path)
    plain = RecordingMeta(node="box", simulated=True)
    write_recording(tmp_path / "b.parquet", read.frames(), topology=TOPOLOGY, meta=plain)
    given, table = (objects(run("gpu0", "--recording", one, "--json")[1])[0] for one in (path, tmp_path / "b.parquet"))
    assert given["max_mhz"] == table["max_mhz"] == 1410.0
    assert given["steps"] == table["steps"]
    assert json.dumps(given) == json.dumps(table)
    assert read.span_ns is not None
    assert (read.span_ns[1] - read.span_ns[0]) / NS_PER_S > 100.0
    assert given["idle_w"] == pytest.approx(70.0, abs=1.0)
    assert IDLE_W == 60.0
