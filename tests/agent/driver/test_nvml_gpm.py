"""Performance metrics between two samples of the C library: windows, losses, permissions, and nothing kept for ever."""

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pynvml
import pytest

from agent.driver.nvml_gpm import METRICS, SIGNALS, PipeReader
from agent.driver.nvml_library import CallResult
from analytics.precision import Precision, precision_of
from telemetry.entities import EntityKind
from telemetry.signals import Source, signals_of
from tests.agent.driver.plant_file import Overridden, ServedGpus, served_gpus


@pytest.fixture
def h100(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedGpus]:
    with served_gpus(tmp_path, monkeypatch, "h100x8") as served:
        yield served


def _read(reader: PipeReader) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    values = np.full((len(reader.gpus), len(SIGNALS)), -12345.0)
    reader.read(values)
    assert not (values == -12345.0).any()
    return dict(zip(SIGNALS, values.T, strict=True))


def _patched(monkeypatch: pytest.MonkeyPatch, **functions: Any) -> Overridden:
    library = Overridden(pynvml.nvmlLib, functions)
    monkeypatch.setattr(pynvml, "nvmlLib", library)
    return library


def test_every_metric_of_the_catalogue_has_a_number() -> None:
    assert tuple(METRICS) == tuple(signal.name for signal in signals_of(EntityKind.GPU, source=Source.GPM))
    assert METRICS["tensor_hmma_ratio"][0] == pynvml.NVML_GPM_METRIC_HMMA_TENSOR_UTIL
    assert METRICS["fp64_active_ratio"][0] == pynvml.NVML_GPM_METRIC_FP64_UTIL
    assert METRICS["dram_active_ratio"][0] == pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL
    assert METRICS["nvlink_tx_bytes_per_s"][0] == pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC


@pytest.mark.parametrize(("node", "has"), [("v100x4", False), ("a100x8", False), ("h100x8", True), ("b200x8", True)])
def test_hopper_and_newer_have_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: str, *, has: bool) -> None:
    with served_gpus(tmp_path, monkeypatch, node) as served:
        pipes = served.driver.pipes
        assert len(pipes.gpus) == (8 if has else 0)
        results = {route.result for route in pipes.routes.values()}
        assert results == ({CallResult.WORKING} if has else {CallResult.NOT_SUPPORTED})
        assert not pipes.is_refused


def test_values_are_those_of_the_time_between_two_reads(h100: ServedGpus) -> None:
    pipes = h100.driver.pipes
    assert all(np.isnan(column).all() for column in _read(pipes).values()), "nothing happened before the first sample"
    before = h100.server.plant.state.gpus.nvlink_bytes.sum(axis=1).copy()
    h100.advance(1000)
    values = _read(pipes)
    moved = h100.server.plant.state.gpus.nvlink_bytes.sum(axis=1) - before
    assert not np.isnan(list(values.values())).any()
    assert values["nvlink_rx_bytes_per_s"] == pytest.approx(moved, rel=1e-3)
    assert (values["sm_active_ratio"] >= 0).all()
    assert (values["sm_active_ratio"] <= 1).all()
    assert {route.result for route in pipes.routes.values()} == {CallResult.WORKING}


def test_two_reads_within_100_ms_give_the_same_and_take_no_sample(h100: ServedGpus) -> None:
    pipes = h100.driver.pipes
    _read(pipes)
    h100.advance(500)
    first = _read(pipes)
    count = h100.driver.costs.by_name["nvmlGpmSampleGet"].count
    h100.advance(50)
    second = _read(pipes)
    assert h100.driver.costs.by_name["nvmlGpmSampleGet"].count == count
    for name in SIGNALS:
        np.testing.assert_array_equal(first[name], second[name])


def test_metrics_that_a_gpu_does_not_have_are_requested_once(h100: ServedGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[int] = []
    real = pynvml.nvmlLib.nvmlGpmMetricsGet
    layout, lacking = pynvml.c_nvmlGpmMetric_t, {"tensor_dfma_ratio", "tensor_dmma_ratio"}

    def metrics(request: Any) -> int:
        count = int.from_bytes(request[4:8], "little")
        requested.append(count)
        code = int(real(request))
        for place in range(count):
            metric = layout.from_buffer(request, 24 + place * ctypes.sizeof(layout))
            if metric.metricId in {METRICS[name][0] for name in lacking}:
                metric.nvmlReturn = 3
        return code

    _patched(monkeypatch, nvmlGpmMetricsGet=metrics)
    pipes = PipeReader(h100.driver.library)
    for _ in range(3):
        values = _read(pipes)
        h100.advance(1000)
    pipes.close()
    assert requested == [len(SIGNALS)] * 8 + [len(SIGNALS) - len(lacking)] * 8
    assert {name for name, column in values.items() if np.isnan(column).any()} == lacking
    unsupported = {route.signal for route in pipes.routes.values() if route.result is CallResult.NOT_SUPPORTED}
    assert unsupported == lacking


def test_a_lost_gpu_is_nan_and_begins_again_when_it_is_back(h100: ServedGpus) -> None:
    pipes = h100.driver.pipes
    _read(pipes)
    h100.server.plant.state.gpus.present[5] = False
    h100.advance(500)
    values = _read(pipes)["dram_active_ratio"]
    assert np.isnan(values).tolist() == [False] * 5 + [True] + [False] * 2
    h100.server.plant.state.gpus.present[5] = True
    h100.advance(1500)
    assert np.isnan(_read(pipes)["dram_active_ratio"][5]), "a new window begins"
    h100.advance(1000)
    assert not np.isnan(_read(pipes)["dram_active_ratio"]).any()


def test_every_sample_that_was_lent_is_given_back_once(h100: ServedGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    lent: list[int] = []
    real_alloc, real_free = pynvml.nvmlLib.nvmlGpmSampleAlloc, pynvml.nvmlLib.nvmlGpmSampleFree

    def alloc(reference: Any) -> int:
        code = int(real_alloc(reference))
        lent.append(reference._obj.value)
        return code

    def free(sample: ctypes.c_void_p) -> int:
        assert sample.value is not None
        lent.remove(sample.value)
        return int(real_free(sample))

    _patched(monkeypatch, nvmlGpmSampleAlloc=alloc, nvmlGpmSampleFree=free)
    pipes = PipeReader(h100.driver.library)
    for step in range(6):
        h100.server.plant.state.gpus.present[1] = step != 2
        h100.advance(1500)
        _read(pipes)
    assert len(lent) == 16
    pipes.close()
    pipes.close()
    assert lent == []
    _read(pipes)
    assert len(lent) == 16
    pipes.close()


def test_a_user_without_the_right_to_profile_is_reported_and_not_tried_again(
    h100: ServedGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    _patched(monkeypatch, nvmlGpmSampleGet=lambda *_: 4)
    pipes = PipeReader(h100.driver.library)
    assert pipes.gpus == ()
    assert pipes.is_refused
    assert {route.result for route in pipes.routes.values()} == {CallResult.NOT_PERMITTED}


def test_a_driver_without_the_functions_has_no_metrics(h100: ServedGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    _patched(monkeypatch, nvmlGpmMetricsGet=None)
    pipes = PipeReader(h100.driver.library)
    assert pipes.gpus == ()
    assert {route.result for route in pipes.routes.values()} == {CallResult.FUNCTION_MISSING}


def test_pipe_ratios_lead_to_the_precision_of_the_job(h100: ServedGpus) -> None:
    pipes = h100.driver.pipes
    _read(pipes)
    h100.advance(4000)
    values = {name: float(column[0]) for name, column in _read(pipes).items()}
    assert 0.3 < values["tensor_hmma_ratio"] < 0.5
    assert values["tensor_active_ratio"] == pytest.approx(values["tensor_hmma_ratio"])
    assert precision_of(values) is Precision.TENSOR_HALF
