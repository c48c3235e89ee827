"""Nodes without an inlet sensor whose GPUs get hotter together."""

import numpy as np
import pytest

from analytics.detectors.heat_limits import NodeWarmingLimits
from analytics.detectors.node_warming import NodeWarming
from analytics.detectors.panel import Panel
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame
from telemetry.records import Cause, Finding, FindingStatus
from tests.analytics.scenes import START_NS, fleet_of, frame_of, gpu

NAN = float("nan")
AT = np.arange(1500.0)
ONSET_S = 700.0
DETECTOR = NodeWarming(limits=NodeWarmingLimits())


def warmed_by(kelvin: float, *, over_s: float = 80.0) -> FloatArray:
    """Return what is added to all temperatures: up to so many kelvin from the onset on, with a time constant."""
    since_s = np.maximum(AT - ONSET_S, 0.0)
    return kelvin * -np.expm1(-since_s / over_s)


def judged(
    more_c: FloatArray, *, power_w: FloatArray | float = 480.0, inlet_c: float = NAN, n_nodes: int = 1
) -> tuple[Finding, ...]:
    """Judge nodes of four GPUs; `more_c` is of all GPUs of the first node alike, or ``(n_times, 4)``."""
    topology = fleet_of(n_nodes, 4)
    members = tuple(gpu(number) for number in range(4 * n_nodes))
    power = np.broadcast_to(np.asarray(power_w, dtype=np.float64).reshape(-1, 1), (len(AT), len(members)))
    temp_c = 28.0 + 0.07 * power + np.where(np.arange(len(members)) % 2, 4.0, 0.0)
    temp_c[:, :4] += more_c.reshape(len(AT), -1)
    frames: list[Frame] = [
        frame_of(EntityKind.GPU, members, {"gpu_temp_c": np.round(temp_c), "power_w": power}, rate_hz=1.0, name="gpus"),
        frame_of(
            EntityKind.NODE,
            tuple(one for one in topology.entities if one.kind is EntityKind.NODE),
            {"inlet_temp_c": np.full(len(AT), inlet_c)},
            rate_hz=1.0,
            name="nodes",
        ),
    ]
    panel = Panel(detectors=(DETECTOR,), event_detectors=())
    return panel.step(panel.start([frame.spec for frame in frames]), frames, topology)[1]


def test_all_gpus_warmer_by_more_than_a_room_may_change_are_one_finding_of_their_node() -> None:
    found = judged(warmed_by(9.5), n_nodes=3)
    assert [(one.entity_id, one.cause) for one in found if one.status is FindingStatus.RAISED] == [
        ("node:n0", Cause.AIRFLOW)
    ]
    assert (found[0].time_ns - START_NS) / NS_PER_S - ONSET_S < 240.0
    assert "hot inlet or lost air" in found[0].summary


@pytest.mark.parametrize(("kelvin", "over_s"), [(-8.0, 200.0), (6.0, 200.0), (12.0, 1800.0)])
def test_a_room_that_changes_by_some_kelvin_or_slowly_is_no_finding(kelvin: float, over_s: float) -> None:
    assert judged(warmed_by(kelvin, over_s=over_s)) == ()


def test_where_an_inlet_sensor_is_others_judge_the_air() -> None:
    assert judged(warmed_by(11.0), inlet_c=22.0) == ()


def test_one_hot_gpu_is_no_warm_node() -> None:
    more_c = np.zeros((len(AT), 4))
    more_c[:, 2] = warmed_by(25.0)
    assert judged(more_c) == ()


def test_a_load_that_grows_warms_the_gpus_and_is_no_finding() -> None:
    assert judged(np.zeros(len(AT)), power_w=np.where(AT < ONSET_S, 200.0, 600.0)) == ()


def test_a_node_that_cools_down_clears() -> None:
    statuses = [one.status for one in judged(np.where(AT < 1000.0, warmed_by(11.0), 0.0))]
    assert statuses[0] is FindingStatus.RAISED
    assert statuses[-1] is FindingStatus.CLEARED
