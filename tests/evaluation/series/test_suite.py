import importlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from analytics.change.general import GeneralMethod
from analytics.scoring.vus import vus_pr
from evaluation import workers
from evaluation.rows import Effort, Row, at_least, at_most
from evaluation.series import kept
from evaluation.series import methods as series_methods
from evaluation.series import suite as series
from evaluation.series.methods import METHODS, Scores, ours, rolling_mad, static_limits
from evaluation.series.suite import load_set
from evaluation.suites import SUITES
from telemetry.errors import EnvironmentLacksError
from telemetry.frames import FloatArray


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    for name in ("smd", "asd"):
        (tmp_path / name).mkdir()
        rows = rng.normal(0, 1, (1200, 3)) @ rng.normal(0, 1, (3, 3))
        label = np.zeros(600, dtype=np.int8)
        label[300:330] = 1
        rows[900:930, 1] += 12
        np.savez(tmp_path / name / "one.npz", train=rows[:600], test=rows[600:], test_label=label)
    (tmp_path / "nab").mkdir()
    value = rng.normal(50, 1, 1000)
    value[600:640] += 9
    stamps = np.datetime64("2024-01-01T00:00:00") + np.arange(1000) * np.timedelta64(300, "s")
    lines = [f"{str(stamp).replace('T', ' ')},{number}" for stamp, number in zip(stamps, value, strict=True)]
    (tmp_path / "nab" / "real__cpu.csv").write_text("\n".join(["timestamp,value", *lines]) + "\n")
    span = [f"{str(stamps[row]).replace('T', ' ')}.000000" for row in (600, 639)]
    (tmp_path / "nab" / "windows.json").write_text(json.dumps({"real__cpu.csv": [span]}))
    return tmp_path


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the methods whose libraries are not everywhere, and most draws; a worker would not know of that."""
    monkeypatch.setattr(workers, "processes", lambda: 1)
    monkeypatch.setattr(series, "METHODS", METHODS[:3])
    monkeypatch.setattr(series, "DRAWS", 5)
    monkeypatch.setattr(kept, "DETECTORS", (GeneralMethod.NOVELTY,))


def rows_of(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[Row]:
    monkeypatch.setenv("RAILWATCH_DATA", str(folder))
    return list(series.series_rows(Effort(), lambda *_: None))


def test_sets_are_read_as_they_lie_there(folder: Path) -> None:
    (nab,) = load_set(folder, "nab")
    assert (nab.name, nab.healthy.shape, nab.rows.shape) == ("cpu", (150, 1), (850, 1))
    assert np.flatnonzero(nab.truth).tolist() == list(range(450, 490))
    (smd,) = load_set(folder, "smd")
    assert (smd.healthy.shape, smd.truth.sum(), smd.rows.dtype.name) == ((600, 3), 30, "float64")


@pytest.mark.usefixtures("quick")
def test_every_set_has_its_rows_with_bounds_and_goals(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(kept, "DETECTORS", tuple(GeneralMethod))
    found = {row.name: row for row in rows_of(monkeypatch, folder)}
    for name in ("smd", "asd", "nab"):
        for measure in ("vus_pr", "event_f1"):
            assert {f"{name}.{measure}.{method.name}" for method in METHODS[:3]} <= found.keys()
            margin = next(row for key, row in found.items() if key.startswith(f"{name}.{measure}.margin_over_"))
            assert margin.goal == ">= 0"
        costs = [found[f"{name}.event_f1_cost.{method.name}"] for method in METHODS[:3]]
        assert all(row.met for row in costs), "no method may have more false alarms than the budget"
        assert found[f"{name}.vus_pr.ours"].value == pytest.approx(1.0, abs=0.3)
        for method in ("", ".cusum", ".ewma", ".page-hinkley"):
            rate = found[f"{name}.false_alarms{method}"]
            assert rate.low is not None
            assert rate.value is not None
            assert rate.high is not None
            assert rate.low <= rate.value < rate.high
            assert rate.goal == "<= 1 per 1000 rows"
            assert f"{name}.unlabelled_alarms{method}" in found


@pytest.mark.usefixtures("quick")
def test_a_set_without_any_event_has_no_figures_and_misses_its_goals(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    (folder / "nab" / "windows.json").write_text("{}")
    found = [row for row in rows_of(monkeypatch, folder) if row.name.startswith("nab.")]
    counts = (".false_alarms", ".unlabelled_alarms", ".flagged", ".event_f1_cost.")
    rates = [row for row in found if any(part in row.name for part in counts)]
    assert all(row.value is None for row in found if row not in rates)
    assert all(row.missed for row in found if ".margin_over_" in row.name)


@pytest.mark.parametrize(
    "method", [series_methods.pca_residual, series_methods.smoothed_pca, series_methods.nearest_neighbours]
)
@pytest.mark.parametrize("n_columns", [1, 4])
def test_what_was_never_seen_scores_highest(method: Callable[..., Scores], n_columns: int) -> None:
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(1)
    # Columns move together, and in time: each is a wave with a little noise.
    course = np.sin(np.arange(900) / 5.0)[:, np.newaxis] * np.ones(n_columns) + rng.normal(0, 0.05, (900, n_columns))
    course[800:803, 0] += 3.0
    score, _ = method(course[:500], course[500:], False)  # noqa: FBT003 -- one shape for all methods
    assert score.shape == (400,)
    assert 298 <= int(np.argmax(score)) <= 335


@pytest.mark.usefixtures("quick")
def test_the_same_data_give_the_same_rows(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    assert rows_of(monkeypatch, folder) == rows_of(monkeypatch, folder)


@pytest.mark.usefixtures("quick")
def test_a_margin_is_lost_where_another_method_is_better(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def blind(healthy: FloatArray, rows: FloatArray, full: bool) -> Scores:  # noqa: FBT001
        del healthy, full
        flat = np.arange(len(rows), dtype=np.float64) % 7
        return flat, flat

    monkeypatch.setattr(series, "METHODS", (series_methods.Method(name="ours", scores=blind), *METHODS[1:3]))
    margins = [row for row in rows_of(monkeypatch, folder) if ".vus_pr.margin" in row.name]
    assert len(margins) == 3
    assert all(row.missed and row.value is not None and row.value < 0 for row in margins)


def test_missing_data_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RAILWATCH_DATA", raising=False)
    with pytest.raises(EnvironmentLacksError, match="RAILWATCH_DATA"):
        next(iter(series.series_rows(Effort(), lambda *_: None)))
    with pytest.raises(EnvironmentLacksError, match="smd"):
        rows_of(monkeypatch, tmp_path)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", lacks)
    with pytest.raises(EnvironmentLacksError, match="stumpy is not installed"):
        series_methods.matrix_profile(np.zeros((100, 1)), np.zeros((50, 1)), False)  # noqa: FBT003


@pytest.mark.parametrize("method", [ours, static_limits, rolling_mad])
def test_a_method_scores_an_outlier_above_the_rest(method: object) -> None:
    rng = np.random.default_rng(2)
    healthy, rows = rng.normal(0, 1, (600, 2)), rng.normal(0, 1, (300, 2))
    rows[200, 1] = 25
    assert callable(method)
    for scores in method(healthy, rows, False):  # noqa: FBT003
        assert 200 <= int(np.argmax(scores)) <= 203  # the distance looks at four rows


def goals() -> Iterator[tuple[Row, bool | None, bool]]:
    row = Row(suite="s", name="n", value=0.5, unit="W")
    yield at_least(row, 0.4), True, False
    yield at_most(row, 0.4), False, True
    yield at_least(Row(suite="s", name="n", value=None), 1.0), None, True
    yield row, None, False


def test_goals_are_met_or_missed_and_what_could_not_be_taken_is_missed() -> None:
    for row, met, missed in goals():
        assert (row.met, row.missed) == (met, missed)
    assert at_least(Row(suite="s", name="n", value=0.5, unit="W"), 0.4).goal == ">= 0.4 W"


def test_suites_have_names_of_their_own() -> None:
    assert "series" in [suite.name for suite in SUITES]
    assert len({suite.name for suite in SUITES}) == len(SUITES)


@pytest.mark.skipif("RAILWATCH_DATA" not in os.environ, reason="RAILWATCH_DATA names the folder of public recordings")
def test_a_real_server_ranks_better_than_by_static_limits() -> None:
    series_of = {one.name: one for one in load_set(Path(os.environ["RAILWATCH_DATA"]), "asd")}
    one = series_of["omi-4"] if "omi-4" in series_of else next(iter(series_of.values()))
    volumes = [
        vus_pr(method(one.healthy, one.rows, False)[0], one.truth, max_window=100, window_step=20)  # noqa: FBT003
        for method in (ours, static_limits)
    ]
    assert volumes[0] > 2 * volumes[1]
