"""``railwatch board show``: over a recording, over a data folder, and what it refuses."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analytics.board_curve.learner import BoardLearner
from physics.board_curve import RATIOS
from railwatch.cli.board_plot import curve_plot
from railwatch.operator.board_curves import CurvePoint, boards_of_store, shown_clocks
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import Frame, joined_frames
from telemetry.gpu import REASON_POWER_CAP
from telemetry.recording import RecordingMeta, read_recording, write_recording
from tests.analytics.board_curve.rows import GPUS, IDLE_W, MAX_MHZ, SPEC, Rows, height
from tests.analytics.board_curve.test_kept import taught
from tests.railwatch.command_line import Run, command_line, objects

NODE = Entity(kind=EntityKind.NODE, key="box", name="box")
# Clocks of a driver's list, which has those of `varied`.
LISTED_MHZ = [210.0, *(round(ratio * MAX_MHZ, 1) for ratio in RATIOS)]
TOPOLOGY = Topology(entities=(NODE, *GPUS), edges=tuple((NODE.id, gpu.id) for gpu in GPUS))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(monkeypatch, capsys, "board", "show")


def varied() -> list[Frame]:
    rows = Rows()
    frames = [frame for ratio in (1.0, 0.8, 0.9) for frame in rows.load(40.0, ratio=ratio)]
    return [*frames, *rows.idle(12.0, power_w=70.0)]


def recorded(path: Path, frames: Iterable[Frame], *, listed_mhz: Sequence[float] = LISTED_MHZ) -> Path:
    clocks = {gpu.key: list(listed_mhz) for gpu in GPUS}
    meta = RecordingMeta(node="box", simulated=True, config={"supported_mhz": clocks})
    write_recording(path, frames, topology=TOPOLOGY, meta=meta)
    return path


def learner_without_list() -> BoardLearner:
    return BoardLearner([SPEC])


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
    assert [point["clock_mhz"] for point in first["curve"]] == LISTED_MHZ[1:]
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
    assert "shown for 400 W at 1410 MHz (not seen yet, from the table: board power of the data sheet)" in out


def test_a_load_that_was_never_seen_has_bounds_down_to_the_idle_power_of_the_table(run: Run, tmp_path: Path) -> None:
    rows = Rows().load(30.0, memory=0.95)  # memory-bound throughout: no compute load, no idle power
    path = recorded(tmp_path / "a.parquet", rows)
    out = run("--recording", path)[1]
    assert out.count("not seen yet, from the table") == len(GPUS)
    assert "60 W assumed (21 to 99)" in out
    top = objects(run("gpu0", "--recording", path, "--json")[1])[0]["curve"][-1]
    assert (top["low_w"], top["power_w"], top["high_w"]) == (pytest.approx(20.5, abs=0.1), 400.0, 400.0)


def test_a_load_that_a_limit_held_is_shown_as_it_was_seen(run: Run, tmp_path: Path) -> None:
    path = recorded(tmp_path / "a.parquet", Rows(noise=0.001).load(30.0, ratio=0.95, reasons=REASON_POWER_CAP))
    seen_w = IDLE_W + 330.0 * height(0.95)
    assert f"capped: {seen_w:.0f} W at 1340 MHz" in run("--recording", path)[1]
    shown = objects(run("gpu0", "--recording", path, "--json")[1])[0]
    assert (shown["load_seen"], shown["load_from"], shown["steps"]) == (False, "capped", 0)
    top = shown["curve"][-1]
    assert top["low_w"] < IDLE_W + 330.0 < top["high_w"] < 450.0


def test_a_load_near_the_assumed_idle_power_is_shown_with_bounds_that_hold_the_truth(run: Run, tmp_path: Path) -> None:
    # 45 W idle, where the table assumes 60; 40 W more at the highest clock.
    true_w = {ratio: 45.0 + 40.0 * height(ratio) for ratio in (0.6, 1.0)}
    rows = Rows().load(30.0, ratio=0.6, level_w=(true_w[0.6] - IDLE_W) / height(0.6), pauses=False)
    path = recorded(tmp_path / "a.parquet", rows)
    assert re.search(r"little: 6\d W at 846 MHz", run("--recording", path)[1])
    shown = objects(run("gpu0", "--recording", path, "--json")[1])[0]
    assert (shown["load_seen"], shown["load_from"]) == (False, "faint")
    assert shown["load_w"] == pytest.approx(true_w[0.6], rel=0.03)
    top = shown["curve"][-1]
    assert top["low_w"] < true_w[1.0] < top["high_w"] < 150.0


def test_the_clocks_are_those_of_the_board_and_seconds_count_at_the_clock_that_was_seen(
    run: Run, tmp_path: Path
) -> None:
    settable = [210.0 + 15.0 * step for step in range(80)]  # up to 1395 MHz: a driver's default is no cap
    rows = Rows()
    frames = [frame for clock in (1410.0, 735.0) for frame in rows.load(30.0, ratio=clock / MAX_MHZ)]
    highest = replace(SPEC, name="gpu_slow", signals=("max_sm_clock_mhz",))
    clocks = Frame(
        spec=highest,
        time_ns=frames[0].time_ns[:1],
        values=np.full((1, len(GPUS), 1), MAX_MHZ),
        fresh=np.ones((1, len(GPUS), 1), dtype=np.bool_),
    )
    path = recorded(tmp_path / "a.parquet", [clocks, *frames], listed_mhz=settable)
    shown = objects(run("gpu0", "--recording", path, "--json")[1])[0]
    assert shown["max_mhz"] == 1410.0
    points = {point["clock_mhz"]: point["seen_s"] for point in shown["curve"]}
    assert set(points) <= {*settable, 1410.0}
    assert {clock for clock, spent in points.items() if spent} == {735.0, 1410.0}
    assert points[735.0] == pytest.approx(27.0, abs=3.0)
    assert len(points) == len(RATIOS) + 1


@pytest.mark.parametrize(("seen_mhz", "step_mhz"), [((1410.0, 990.0), 15.0), ((1410.0, 1372.0), 7.5)])
def test_a_board_that_lists_no_clocks_has_steps_as_wide_as_the_clocks_seen_allow(
    seen_mhz: tuple[float, ...], step_mhz: float
) -> None:
    board, rows = learner_without_list(), Rows()
    for frame in (frame for clock in seen_mhz for frame in rows.load(30.0, ratio=clock / MAX_MHZ)):
        board.feed(frame)
    clocks = shown_clocks(board.states[GPUS[0].id])
    steps = {float(int(MAX_MHZ - step_mhz * step)) for step in range(200)}
    assert set(clocks) <= steps
    assert set(seen_mhz) <= set(clocks)


def test_the_saved_curves_keep_the_clocks_of_the_board(run: Run, tmp_path: Path) -> None:
    boards = BoardLearner([SPEC], supported_mhz={gpu.key: tuple(LISTED_MHZ) for gpu in GPUS})
    for frame in varied():
        boards.feed(frame)
    out = run(GPUS[0].key, "--data-dir", data_dir(tmp_path / "data", boards.learnt(0)()), "--json")[1]
    points = objects(out)[0]["curve"]
    assert [point["clock_mhz"] for point in points] == LISTED_MHZ[1:]
    assert {point["clock_mhz"] for point in points if point["seen_s"]} == {1128.0, 1269.0, 1410.0}


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
    # Without a list of clocks, the rows of the table are whole megahertz: half of one off a clock of the list at most.
    curves = [one.pop("curve") for one in (given, table)]
    assert json.dumps(given) == json.dumps(table)
    for listed, unlisted in zip(*curves, strict=True):
        assert unlisted["clock_mhz"] == pytest.approx(listed["clock_mhz"], abs=0.5)
        assert unlisted["power_w"] == pytest.approx(listed["power_w"], abs=0.3)
        assert (unlisted["seen_s"], unlisted["from"]) == (listed["seen_s"], listed["from"])
    assert read.span_ns is not None
    assert (read.span_ns[1] - read.span_ns[0]) / NS_PER_S > 100.0
    assert given["idle_w"] == pytest.approx(70.0, abs=1.0)
    assert IDLE_W == 60.0
