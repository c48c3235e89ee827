"""GPU driver whose calls never return: what keeps running, reports, kept data, and time to recovery."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from simulator.driver.build import find_compiler
from simulator.driver.layout import ALL_GPUS
from simulator.driver.state import StateFile
from telemetry.clock import SystemClock
from tests.integration.running import Node, node_up

logger = logging.getLogger(__name__)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

# Every call takes an hour.
HANG = ("*", ALL_GPUS, 0, 3_600_000_000)
# A driver that hangs counts as dead after ten deadlines, and ten seconds at least.
CONFIG = "sampling: {deadline: 1s}\n"


@contextmanager
def driver_that_hangs(node: Node) -> Iterator[None]:
    assert node.context.state_file is not None
    state = StateFile(Path(node.context.state_file), mode="write")
    state.set_faults([HANG])
    try:
        yield
    finally:
        state.set_faults([])
        state.close()


def state_of(node: Node, name: str) -> str:
    try:
        collectors = node.api("status")["collectors"]
    except AssertionError:
        return ""
    return next((f"{one['state']} {one['detail']}" for one in collectors if one["name"] == name), "")


def output(node: Node, text: str) -> bool:
    return any(text in line for line in node.output)


def times_reported(node: Node, text: str) -> int:
    return sum(text in event["message"] for event in node.api("events?limit=200"))


def test_sampling_goes_on_without_a_driver_that_hangs_and_with_it_once_it_is_back(tmp_path: Path) -> None:
    if find_compiler() is None:
        pytest.skip("no C compiler: there is no driver library that could hang")
    (tmp_path / "config.yaml").write_text(CONFIG)
    clock = SystemClock()
    options = ("--simulate", "v100x4", "--config", str(tmp_path / "config.yaml"))
    with node_up(tmp_path / "data", *options) as node:
        node.until(lambda: output(node, "page: "), what="the page's address")
        node.until(lambda: state_of(node, "gpu_fast").startswith("working"), what="the GPUs are read")
        with driver_that_hangs(node):
            hung_s = clock.monotonic_s()
            node.until(lambda: output(node, "exited with status 7"), what="the process gives the driver up")
            node.until(
                lambda: "driver does not respond" in state_of(node, "gpu_fast"),
                what="another does without it",
            )
            without_s = clock.monotonic_s() - hung_s
            for other in ("supply", "gpu_bus"):
                node.until(lambda: state_of(node, other).startswith("working"), what=other)  # noqa: B023 -- called in this turn alone
            incident = node.line(type="incident", state="open")
            assert "no power_w" in incident["summary"]
        back_s = clock.monotonic_s()
        node.until(lambda: output(node, "exited with status 8"), what="the driver answers")
        node.until(lambda: state_of(node, "gpu_fast").startswith("working"), what="the GPUs are read again")
        again_s = clock.monotonic_s() - back_s
        logger.info("without the driver after %.1f s, with it %.1f s after it was back", without_s, again_s)
        reported = ("Collector gpu_fast is hung", "GPUs are not read", "The GPU driver answers again")
        node.until(lambda: all(times_reported(node, text) for text in reported), what="the events are on the page")
        assert [times_reported(node, text) for text in reported] == [1, 1, 1]
        node.end()
        assert node.lines[-1]["restarts"] == 2
        assert node.leftovers() == []
