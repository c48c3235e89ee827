"""A node that has every source there is, and each of its collectors, for the conformance suite."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from agent.collectors.bmc.board import Board, BoardNode, BoardTable
from agent.collectors.bmc.point import Place, Point, Quantity
from agent.collectors.gpu.processes import GpuProcesses
from agent.collectors.gpu.sources import GpuSources, OpenGpus
from agent.collectors.meters.pdu import Pdu, find_pdus
from agent.collectors.meters.pdu_mibs import Oid, SnmpValue, parse_oid
from agent.collectors.meters.settings import PduSettings
from agent.collectors.port import Collector
from agent.collectors.registry.settings import FastSettings, SlowSettings
from agent.collectors.registry.sources import FAST_COLLECTORS, SLOW_COLLECTORS, FastFactory, SlowFactory
from agent.driver.port import GpuProcess, LinkIdentity, ProcessUse, SampleRun
from agent.sampler.counters import SamplerCounters
from telemetry.clock import SystemClock
from telemetry.frames import FloatArray
from telemetry.gpu import GpuIdentity
from tests.agent.collectors.bmc.fakes import FakeLink
from tests.agent.collectors.meters.devices import APC_PDU
from tests.agent.collectors.node_files import connector, pci_device, proc_tree, two_supplies, write
from tests.agent.fakes import FakeClock, FakeGpuReader, gpu_identities

GPUS = gpu_identities(2)


class Links:
    """Two NVLinks."""

    links = tuple(LinkIdentity(gpu_uuid=gpu.uuid, gpu_index=gpu.index, link=0, peer=None) for gpu in GPUS)

    def read(self, values: FloatArray) -> None:
        values.fill(1.0)


class Pipes:
    """Performance metrics of two GPUs."""

    gpus = GPUS
    is_refused = False

    def read(self, values: FloatArray) -> None:
        values.fill(0.5)

    def close(self) -> None:
        pass


class Rings:
    """Sample buffers in which nothing is new."""

    signals: tuple[str, ...] = ("power_w",)
    overruns = 0

    @property
    def depths(self) -> dict[str, int]:
        return {"power_w": 120}

    @property
    def periods_s(self) -> dict[str, float]:
        return {"power_w": 0.02}

    def gpus(self) -> tuple[GpuIdentity, ...]:
        return GPUS

    def read(self) -> tuple[SampleRun, ...]:
        return ()


class Processes:
    """A process on each GPU."""

    def processes(self, uuid: str) -> tuple[GpuProcess, ...]:
        return (GpuProcess(gpu_uuid=uuid, pid=10, use=ProcessUse.COMPUTE, used_bytes=1e9),)


class PduSession:
    """An APC PDU without a network."""

    def __init__(self) -> None:
        self.known = {parse_oid(name): value for name, value in APC_PDU.items()}

    async def get(self, oids: Sequence[Oid]) -> Mapping[Oid, SnmpValue]:
        return {oid: self.known.get(oid) for oid in oids}

    async def walk(self, root: Oid) -> Mapping[Oid, SnmpValue]:
        return {name[len(root) :]: value for name, value in self.known.items() if name[: len(root)] == root}

    def close(self) -> None:
        pass


def tree(root: Path) -> Path:
    """A sysfs and a /proc with something for each collector to find."""
    two_supplies(root)
    proc_tree(root / "proc")
    for gpu in GPUS:
        pci_device(root, gpu.pci)
    connector(root, 7, pci=GPUS[0].pci)
    board, supply = "class/hwmon/hwmon4", "class/hwmon/hwmon5"
    write(root, {f"{board}/name": "nct6798", f"{board}/in1_label": "+5V", f"{board}/in1_input": "5020"})
    write(root, {f"{board}/fan1_label": "CPU Fan", f"{board}/fan1_input": "1200"})
    write(root, {f"{board}/temp1_label": "SYSTIN", f"{board}/temp1_input": "31000"})
    write(root, {"class/hwmon/hwmon6/name": "coretemp", "class/hwmon/hwmon6/temp1_label": "Package id 0"})
    write(root, {"class/hwmon/hwmon6/temp1_input": "55000"})
    write(root, {f"{supply}/name": "crps185", f"{supply}/in1_label": "vin", f"{supply}/in1_input": "229500"})
    write(root, {f"{supply}/in2_label": "vout1", f"{supply}/in2_input": "12240", f"{supply}/fan1_input": "11800"})
    write(root, {f"{supply}/power2_label": "pout1", f"{supply}/power2_input": "869000000"})
    return root


def fast_settings(root: Path, reader: FakeGpuReader | None) -> FastSettings:
    return FastSettings(
        node="node0",
        clock=FakeClock(),
        counters=SamplerCounters(),
        reader=reader,
        sysfs_root=root,
        proc_root=root / "proc",
        why_no_reader="no NVML",
        links=None if reader is None else Links(),
        pipes=None if reader is None else Pipes(),
        samples=None if reader is None else Rings(),
    )


def slow_settings(root: Path, reader: FakeGpuReader | None) -> SlowSettings:
    def open_gpus() -> OpenGpus:
        if reader is None:
            return OpenGpus(why="no NVML")
        processes = GpuProcesses(Processes(), GPUS, proc_root=root / "proc", clock=FakeClock())
        return OpenGpus(reader=reader, processes=processes)

    # Sources are built by threads; on a clock that jumps at once, their time would be over before they began.
    return SlowSettings(node="node0", clock=SystemClock(), sysfs_root=root, gpus=GpuSources(open_gpus))


def _board(root: Path) -> tuple[Board, BoardNode]:
    rail = Point(key="rail", name="P12V", quantity=Quantity.VOLTAGE, place=Place.BOARD)
    fan = Point(key="fan", name="FAN0", quantity=Quantity.FAN_SPEED, place=Place.FAN, unit="fan0")
    supply = Point(key="psu", name="PSU1", quantity=Quantity.POWER, place=Place.SUPPLY, unit="psu1")
    link = FakeLink(points=(rail, fan, supply), values={"rail": 12.0, "fan": 9000.0, "psu": 700.0})
    board = Board(link, node="node0", clock=FakeClock())
    node = BoardNode(board, board.survey().node)
    node.read(np.empty(node.spec.shape))
    return board, node


def _board_node(root: Path) -> Collector:
    return _board(root)[1]


def _board_supplies(root: Path) -> Collector:
    board, _ = _board(root)
    supplies = board.survey().supplies
    assert supplies is not None
    return BoardTable(board, supplies)


def _board_fans(root: Path) -> Collector:
    board, _ = _board(root)
    fans = board.survey().fans
    assert fans is not None
    return BoardTable(board, fans)


def _pdu(root: Path) -> Collector:
    found = find_pdus([PduSettings(name="pdu-a", host="nowhere.invalid")], lambda _: PduSession())
    return Pdu(found, lambda _: PduSession())


# Collectors behind a network or a device file are made directly.
BEHIND_A_NETWORK: dict[str, Callable[[Path], Collector]] = {
    "bmc": _board_node,
    "bmc_supplies": _board_supplies,
    "bmc_fans": _board_fans,
    "pdu": _pdu,
}


def makers() -> dict[str, Callable[[Path], Collector]]:
    """Return what makes each collector of both tuples, by the name of its factory; a new one is in here by itself."""
    found: dict[str, Callable[[Path], Collector]] = {one.__name__: partial(_fast, one) for one in FAST_COLLECTORS}
    found |= {one.__name__: partial(_slow, one) for one in SLOW_COLLECTORS}
    found |= BEHIND_A_NETWORK
    # A UPS has no protocol that could be faked shorter than by its server: its own tests have Debian's.
    found.pop("ups")
    return found


def _fast(make: FastFactory, root: Path) -> Collector:
    return _made(make(fast_settings(root, FakeGpuReader(2))).source)


def _slow(make: SlowFactory, root: Path) -> Collector:
    return _made(make(slow_settings(root, FakeGpuReader(2))).source)


def _made(collector: Collector | None) -> Collector:
    assert collector is not None
    return collector
