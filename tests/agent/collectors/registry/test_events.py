"""Event sources of a node, and how to get missing ones."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.collectors.port import SourceState
from agent.collectors.registry.settings import EventSettings
from agent.collectors.registry.sources import FAST_EVENT_SOURCES, build_event_sources
from tests.agent.collectors.node_files import pci_device
from tests.agent.fakes import FakeClock, gpu_identities

NAMES = ("link_state", "uevents", "tracepoints", "fabric_manager")


def settings(root: Path) -> EventSettings:
    return EventSettings(
        node="node0",
        clock=FakeClock(),
        gpus=gpu_identities(2),
        sysfs_root=root / "sys",
        tracefs_root=root / "tracing",
        fabric_log=root / "fabricmanager.log",
    )


@pytest.fixture
def whole(tmp_path: Path) -> EventSettings:
    for gpu in gpu_identities(2):
        pci_device(tmp_path / "sys", gpu.pci)
    (tmp_path / "tracing/events/nvidia/nvidia_dev_xid").mkdir(parents=True)
    (tmp_path / "tracing/instances").mkdir()
    (tmp_path / "fabricmanager.log").touch()
    return settings(tmp_path)


def test_the_tuple_names_every_source_and_each_is_found_working(whole: EventSettings) -> None:
    built = build_event_sources(whole)
    assert tuple(part.status.name for part in built) == NAMES
    for part in built:
        if part.status.name == "uevents" and part.source is None:
            continue  # no netlink in this sandbox
        assert part.status.state is SourceState.WORKING
        assert part.source is not None
        assert part.source.name == part.status.name
        part.source.close()
        part.source.close()


def test_a_missing_source_has_how_to_get_it(tmp_path: Path) -> None:
    built = {part.status.name: part for part in build_event_sources(settings(tmp_path))}
    for name in ("link_state", "tracepoints", "fabric_manager"):
        assert built[name].source is None
        assert built[name].status.state is SourceState.MISSING
        assert built[name].status.how_to_get


def test_a_driver_without_tracepoints_is_reported_from_a_tracefs_that_is_not_mounted(tmp_path: Path) -> None:
    (tmp_path / "tracing/events/sched").mkdir(parents=True)
    (part,) = (part for part in build_event_sources(settings(tmp_path)) if part.status.name == "tracepoints")
    assert "nvidia_dev_xid" in part.status.detail


def test_a_source_that_is_switched_off_is_reported_so(whole: EventSettings) -> None:
    off = replace(whole, sysfs_root=None, tracefs_root=None, fabric_log=None, uevents=False, why_off="not wanted")
    built = build_event_sources(off)
    assert len(built) == len(FAST_EVENT_SOURCES)
    assert {part.status.detail for part in built} == {"not wanted"}
    assert {part.source for part in built} == {None}
