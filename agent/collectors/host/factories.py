"""Factories of the host collectors."""

from agent.collectors.gpu.factories import with_gpus
from agent.collectors.host.host import Host
from agent.collectors.host.pci import Pci
from agent.collectors.host.pressure import Pressure, pressure_folder
from agent.collectors.host.self_metrics import SelfMetrics
from agent.collectors.port import BuiltCollector, missing, working
from agent.collectors.registry.settings import FastSettings


def pci(settings: FastSettings) -> BuiltCollector:
    """Build the collector of each GPU's presence and errors on the PCI bus."""
    root = settings.sysfs_root
    if not (root / "bus/pci/devices").is_dir():
        return missing(Pci.name, f"{root}/bus/pci/devices does not exist", "run where sysfs is mounted")
    return with_gpus(Pci.name, settings.reader, settings.why_no_reader, lambda reader: Pci(reader.gpus(), root))


def host(settings: FastSettings) -> BuiltCollector:
    """Build the collector of processor, memory and inlet temperature."""
    return working(Host(settings.node, settings.sysfs_root, settings.proc_root), settings.node)


def pressure(settings: FastSettings) -> BuiltCollector:
    """Build the collector of pressure stall information."""
    folder = pressure_folder(settings.proc_root)
    if not folder.is_dir():
        return missing(Pressure.name, f"{folder} does not exist", "a kernel with CONFIG_PSI, booted with psi=1")
    return working(Pressure(settings.node, settings.proc_root), str(folder))


def self_metrics(settings: FastSettings) -> BuiltCollector:
    """Build the collector of the sampling process's own cost."""
    return working(SelfMetrics(settings.node, settings.counters, settings.clock), "this process")
