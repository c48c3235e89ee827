"""The driver's kernel threads, from a /proc in a folder and from the simulated node's."""

import math
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from agent.collectors.gpu.driver_threads import IRQ, QUEUE, DriverThreads, signal_of, used_ticks
from agent.collectors.sysfs.proc_file import ProcessStat
from tests.agent.collectors.node_files import proc_tree, thread
from tests.agent.fakes import FakeClock

HZ = os.sysconf("SC_CLK_TCK")


class Node:
    """A collector over a tree, read once a second."""

    def __init__(self, root: Path) -> None:
        self.root = proc_tree(root)
        self.clock = FakeClock()
        self.threads = DriverThreads("node0", self.clock, root)
        self.threads.open()

    def read(self, *, after_s: float = 1.0) -> tuple[float, float]:
        self.clock.advance(after_s)
        values = np.full(self.threads.spec.shape, -1.0)
        self.threads.read(values)
        queue, irq = values[0].tolist()
        return queue, irq


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_the_share_of_a_processor_is_that_of_all_threads_of_a_kind(node: Node) -> None:
    assert all(math.isnan(value) for value in node.read()), "one read gives no share"
    thread(node.root, 812, "nv_queue", system=HZ)
    thread(node.root, 813, "irq/57-nvidia", system=HZ // 4)
    thread(node.root, 814, "irq/58-s-nvidia", user=HZ // 4)
    assert node.read(after_s=2.0) == pytest.approx((0.5, 0.25))
    assert node.read() == (0.0, 0.0)


@pytest.mark.parametrize("name", ["irq/1057-s-nvid", "irq/10057-nvidi", "irq/157-s-nvidia", "irq/57-nvidia"])
def test_a_name_that_an_older_kernel_cut_short_counts(tmp_path: Path, name: str) -> None:
    node = Node(tmp_path)
    thread(node.root, 900, name)
    node.threads.close()
    node.read()
    thread(node.root, 900, name, system=HZ // 2)
    assert node.read()[1] == pytest.approx(0.5)


def test_a_program_that_takes_the_name_does_not_count(node: Node) -> None:
    node.read()
    thread(node.root, 4000, "nv_queue", parent=1, system=99_999)
    assert node.read() == (0.0, 0.0)


def test_threads_of_a_driver_that_was_loaded_again_are_found(node: Node) -> None:
    node.read()
    for pid in (812, 813, 814):
        shutil.rmtree(node.root / str(pid))
    assert all(math.isnan(value) for value in node.read()), "no such thread: absent, not idle"
    thread(node.root, 912, "nv_queue", system=7 * HZ)
    node.read(after_s=31.0)
    thread(node.root, 912, "nv_queue", system=8 * HZ)
    queue, irq = node.read()
    assert queue == pytest.approx(1.0)
    assert math.isnan(irq)


def test_another_thread_under_the_same_number_does_not_count_the_ticks_of_the_first(node: Node) -> None:
    node.read()
    thread(node.root, 812, "nv_queue", system=500 * HZ, start=999)
    queue, _ = node.read()
    assert math.isnan(queue)
    thread(node.root, 812, "nv_queue", system=500 * HZ + HZ // 2, start=999)
    assert node.read()[0] == pytest.approx(0.5)


def test_it_can_be_closed_twice_and_opened_again_and_counts_what_there_is(node: Node) -> None:
    assert node.threads.count() == 3
    node.read()
    node.threads.close()
    node.threads.close()
    node.threads.open()
    node.read()
    assert node.read() == (0.0, 0.0)


def test_descriptors_stay_open_until_it_is_closed(node: Node) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 -- counted only
    for _ in range(5):
        node.read()
    node.threads.close()
    assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208 -- counted only


@pytest.mark.parametrize(
    ("name", "signal"),
    [(b"nv_queue", QUEUE), (b"irq/57-nvidia", IRQ), (b"irq/58-s-nvidia", IRQ), (b"irq/57-xhci_hcd", None), (b"", None)],
)
def test_threads_are_the_driver_s_by_their_name(name: bytes, signal: str | None) -> None:
    assert signal_of(name) == signal


def test_processor_time_is_that_of_user_and_system() -> None:
    before = ProcessStat(parent=2, user_ticks=3, system_ticks=10, start_ticks=5)
    assert used_ticks(before, ProcessStat(parent=2, user_ticks=4, system_ticks=20, start_ticks=5)) == 11
