"""A rail that falls between two rows gets a row at once, in order of time and no more than one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from agent.accounts import Accounts
from agent.collectors.hwmon import Hwmon, Sweeping
from agent.collectors.rails.sweep import SweepSettings
from agent.ring import Ring, RingTable
from agent.sampler.sampler import Sampler, make_ring
from agent.sampler.settings import Pace, SamplerSettings
from telemetry.clock import NS_PER_S, SystemClock
from tests.agent.collectors.sysfs import two_supplies, write
from tests.agent.fakes import node_topology
from tests.agent.guard.rig import wait_for

LOW_V = 11.35
ROW_S = 0.5
VOLTS_0 = "class/hwmon/hwmon0/in0_input"


@dataclass
class Rails:
    """A sampler over two rails in a folder, two rows a second."""

    root: Path
    ring: Ring
    collector: Hwmon
    told: list[float] = field(default_factory=list)
    stop: Callable[[], None] = lambda: None

    @property
    def table(self) -> RingTable:
        return self.ring.tables["supply"]

    def volts(self) -> list[float]:
        return [round(float(one), 2) for one in self.table.read(0).frame.signal("voltage_v")[:, 0]]

    def set_mv(self, millivolts: int) -> None:
        write(self.root, {VOLTS_0: str(millivolts)})


@pytest.fixture
def rails(tmp_path: Path) -> Iterator[Rails]:
    root, clock = tmp_path / "sys", SystemClock()
    two_supplies(root)
    collector = Hwmon(root, Sweeping(settings=SweepSettings(hz=500.0, low_v=LOW_V), clock=clock))
    settings = SamplerSettings(fast=Pace(rate_hz=1 / ROW_S, stale_after_s=2.0, hung_after_s=2.0))
    ring = make_ring(
        tmp_path / "ring", [collector], settings, node="n", topology=node_topology(1), simulated=True, seconds=60
    )
    made = Rails(root=root, ring=ring, collector=collector)
    sampler = Sampler(
        ring,
        [collector],
        clock=clock,
        settings=settings,
        accounts=Accounts(),
        on_rows=lambda _: made.told.append(clock.monotonic_s()),
    )
    sampler.start()
    made.stop = sampler.stop
    wait_for(lambda: made.table.count >= 1)
    yield made
    sampler.stop()
    ring.close()


def test_a_dip_is_a_row_long_before_the_next_one_is_due(rails: Rails) -> None:
    count = rails.table.count
    wait_for(lambda: rails.table.count > count)  # half a second until the next
    rails.set_mv(11_200)
    began_s = SystemClock().monotonic_s()
    wait_for(lambda: 11.2 in rails.volts())
    assert SystemClock().monotonic_s() - began_s < ROW_S / 2
    assert rails.told[-1] - began_s < ROW_S / 2, "whoever waits for rows was told"


def test_a_rail_that_stays_low_gets_no_row_beyond_its_pace_and_another_dip_does(rails: Rails) -> None:
    rails.set_mv(11_200)
    wait_for(lambda: 11.2 in rails.volts())
    count, clock = rails.table.count, SystemClock()
    for millivolts in (11_190, 11_210, 11_180):
        rails.set_mv(millivolts)
        clock.sleep_until(clock.monotonic_s() + 0.02)
    assert rails.table.count - count <= 1
    rails.set_mv(12_000)
    wait_for(lambda: rails.volts()[-1] == 12.0)
    rails.set_mv(11_100)
    wait_for(lambda: 11.1 in rails.volts())


def test_a_thread_that_was_left_behind_adds_no_row_after_the_end(rails: Rails) -> None:
    tell_of_a_low_rail = rails.collector._table.sweeps[0].on_low
    rails.stop()
    count = rails.table.count
    tell_of_a_low_rail()
    assert rails.table.count == count


def test_rows_stay_in_order_of_time(rails: Rails) -> None:
    clock = SystemClock()
    for number in range(30):
        rails.set_mv(11_000 + number if number % 2 else 12_000 + number)
        clock.sleep_until(clock.monotonic_s() + 0.03)
    times_ns = rails.table.read(0).frame.time_ns
    assert rails.table.read(0).next == rails.table.count, "a frame ends where time goes back"
    assert np.all(np.diff(times_ns) > 0)
    assert len(times_ns) > 10
    assert times_ns[-1] - times_ns[0] < 10 * NS_PER_S
