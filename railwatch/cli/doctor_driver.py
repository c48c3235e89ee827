"""Rows of ``railwatch doctor`` about the GPU driver: GPUs, signals, calls and sensor update periods."""

from collections.abc import Mapping

from agent.driver.nvml import NvmlDriver
from agent.driver.nvml_library import Answer
from agent.driver.probe import UpdatePeriod, measure_update_period, probe
from analytics.precision import precision_of
from railwatch.cli.doctor_report import Fields
from telemetry.clock import Clock
from telemetry.signals import RateClass


def probe_rows(driver: NvmlDriver) -> list[Fields]:
    """Read everything a few times and return a row for each GPU, signal and driver call."""
    found = probe(driver)
    pipes: dict[str, dict[str, float]] = {gpu.uuid: {} for gpu in driver.gpus()}
    for item in found.signals:
        if item.value is not None:
            pipes[item.uuid][item.signal] = item.value
    signals = [
        {
            "kind": "signal",
            "name": item.signal,
            "uuid": item.uuid,
            "state": item.answer.value,
            "detail": item.source,
            "nvml_code": item.code,
            "asked_every_s": item.every_s,
            "value": item.value,
        }
        for item in found.signals
    ]
    calls = [
        {
            "kind": "call",
            "name": item.name,
            "state": "working",
            "detail": f"{item.count} calls, mean {item.mean_s * 1e6:.1f} us, worst {item.max_s * 1e6:.1f} us",
            "count": item.count,
            "mean_us": round(item.mean_s * 1e6, 2),
            "max_us": round(item.max_s * 1e6, 2),
        }
        for item in found.calls
    ]
    return [*_gpu_rows(driver, pipes), *signals, *calls]


def _gpu_rows(driver: NvmlDriver, pipes: Mapping[str, dict[str, float]]) -> list[Fields]:
    """Return a row for each GPU that answers, then one for each GPU that was lost."""
    answering = [
        {
            "kind": "gpu",
            "name": f"gpu{gpu.index}",
            "state": "working",
            "detail": f"{gpu.name}, PCI {gpu.pci}, driver {gpu.driver_version}",
            "uuid": gpu.uuid,
            "precision": precision_of(pipes[gpu.uuid]).value,
        }
        for gpu in driver.gpus()
    ]
    lost = [{"kind": "gpu", "name": "lost", "state": "failed", "detail": why} for why in driver.library.lost_at_open]
    return [*answering, *lost]


def period_rows(driver: NvmlDriver, clock: Clock, duration_s: float) -> list[Fields]:
    """Poll for this long and return a row for each readable signal of each GPU, also if it did not change."""
    periods = [
        period
        for rate in RateClass
        for period in measure_update_period(driver, clock, rate=rate, duration_s=duration_s / len(RateClass))
    ]
    readable = {(uuid, route.signal) for uuid, route in driver.routes if route.answer is Answer.WORKING}
    names = {gpu.uuid: f"gpu{gpu.index}" for gpu in driver.gpus()}
    return [
        {
            "kind": "update_period",
            "name": item.signal,
            "gpu": names[item.uuid],
            "uuid": item.uuid,
            "state": _state(item),
            "detail": f"{item.changes} changes in {item.polls} polls",
            "changes": item.changes,
            "period_ms": None if item.period_s is None else round(item.period_s * 1000, 2),
            "shortest_ms": None if item.shortest_s is None else round(item.shortest_s * 1000, 2),
        }
        for item in periods
        if (item.uuid, item.signal) in readable
    ]


def _state(item: UpdatePeriod) -> str:
    if item.period_s is not None:
        return "working"
    return "few_changes" if item.changes else "unchanged"
