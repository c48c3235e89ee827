"""Watts of whole nodes: over-power, a GPU that left, odd nodes, efficiency, meters under two names."""

from dataclasses import replace

import numpy as np
import pytest

from analytics.detectors.limits import DetectorLimits
from analytics.detectors.panel import Panel
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame
from telemetry.ratings import RatingSource, rating_tags
from telemetry.records import Cause, Finding, FindingStatus, Severity
from tests.analytics.detectors.feed_scenes import (
    feeds_frame,
    job_of,
    load_of,
    nodes_frame,
    panel_findings,
    server,
    volts_of,
)
from tests.analytics.scenes import frame_of, gpu, supply

ROWS = 600
FROM = 320
AFTER = slice(FROM, ROWS)


def one_node(gpus: int = 0) -> Topology:
    node, members = server("n0"), tuple(gpu(number) for number in range(gpus))
    return Topology(entities=(node, *members), edges=tuple((node.id, one.id) for one in members))


def many_nodes(count: int) -> Topology:
    return Topology(entities=tuple(server(f"n{number}") for number in range(count)), edges=())


def of_server(watts: FloatArray, gpus: int = 0) -> list[Finding]:
    return panel_findings(nodes_frame(watts[:, np.newaxis]), topology=one_node(gpus))


def summary_of(found: list[Finding], cause: Cause) -> str:
    assert {one.cause for one in found} == {cause}
    return found[0].summary


@pytest.mark.parametrize("times", [1.15, 1.3])
def test_a_node_above_the_most_that_it_ever_drew_is_over_power_without_a_rating(times: float) -> None:
    watts = load_of(ROWS, idle_w=2000.0, loaded_w=6000.0)
    watts[AFTER] *= times
    assert "the most ever seen" in summary_of(of_server(watts), Cause.SUPPLY_OVERLOAD)
    assert "no rating given" in of_server(watts)[0].summary


def test_a_job_that_begins_is_no_over_power() -> None:
    watts = load_of(ROWS, idle_w=2000.0, loaded_w=4000.0)
    watts[FROM:400] = load_of(80, idle_w=2000.0, loaded_w=2000.0)
    watts[400:] *= 1.3
    assert not of_server(watts)


def test_a_feed_above_its_rating_is_over_power_at_its_voltage() -> None:
    power_w = load_of(ROWS, idle_w=200.0, loaded_w=400.0)[:, np.newaxis]
    frame = feeds_frame(power_w, volts_of(ROWS, 1, volts=206.0))
    (own,) = frame.spec.entities
    rated = replace(own, tags=rating_tags(350.0, RatingSource.CONFIGURATION))
    topology = Topology(entities=(server("server"), rated), edges=((server("server").id, rated.id),))
    found = panel_findings(replace(frame, spec=replace(frame.spec, entities=(rated,))), topology=topology)
    assert "at 206 V, 11" in summary_of(found, Cause.SUPPLY_OVERLOAD)
    assert "of the 350 W that it is rated for" in found[0].summary


@pytest.mark.parametrize("gpus", [0, 8])
def test_a_step_of_one_gpus_part_that_stays_is_a_gpu_that_left(gpus: int) -> None:
    watts = load_of(ROWS, idle_w=2000.0, loaded_w=6000.0)
    watts[AFTER] -= 500.0
    found = of_server(watts, gpus)
    assert ("1 of 8 GPUs" if gpus else "one GPU of about 8") in summary_of(found, Cause.GPU_LOST)
    assert found[0].severity is Severity.WARNING
    assert found[0].entity_id == "node:n0"


@pytest.mark.parametrize("what", ["dip", "idle", "slow"])
def test_loads_that_dip_end_or_fade_are_no_gpu_that_left(what: str) -> None:
    watts = load_of(ROWS, idle_w=2000.0, loaded_w=6000.0)
    if what == "dip":
        watts[FROM : FROM + 15] -= 500.0
    elif what == "idle":
        watts[AFTER] -= 4000.0
    else:
        watts[AFTER] -= np.linspace(0.0, 500.0, ROWS - FROM)
    assert not of_server(watts)


def test_a_load_that_fell_on_all_gpus_is_no_gpu_that_left() -> None:
    watts = load_of(ROWS, idle_w=2000.0, loaded_w=6000.0)
    watts[AFTER] -= 500.0
    powers = np.full((ROWS, 8), 600.0)
    powers[AFTER] -= 62.5
    members = tuple(gpu(number) for number in range(8))
    gpus = frame_of(EntityKind.GPU, members, {"power_w": powers}, rate_hz=1.0, name="gpus")
    nodes = nodes_frame(watts[:, np.newaxis])
    both = together(nodes, gpus, topology=one_node(8))
    assert not [one for one in both if one.detector == "gpu_left"]
    powers[AFTER, 1:] = 600.0
    powers[AFTER, 0] = 70.0
    alone = replace(gpus, values=powers[:, :, np.newaxis])
    assert [one for one in together(nodes, alone, topology=one_node(8)) if one.detector == "gpu_left"]


def together(*tables: Frame, topology: Topology) -> list[Finding]:
    """Return the findings of tables of the same times, ten rows at a time."""
    panel = Panel.build(DetectorLimits())
    state, findings = panel.start([one.spec for one in tables]), list[Finding]()
    for row in range(0, len(tables[0]), 10):
        state, found = panel.step(state, [one.rows(row, row + 10) for one in tables], topology)
        findings += found
    return findings


@pytest.mark.parametrize(
    ("times", "cause"), [(1.012, Cause.EFFICIENCY_LOSS), (0.97, Cause.ODD_NODE), (1.08, Cause.ODD_NODE)]
)
def test_a_node_that_leaves_its_siblings_at_the_same_work_is_named(times: float, cause: Cause) -> None:
    watts = job_of(400, 8, seed=4)
    watts[200:, 2] *= times
    found = panel_findings(nodes_frame(watts, rate_hz=0.2), topology=many_nodes(8))
    warnings = {(one.cause, one.entity_id) for one in found if one.severity is Severity.WARNING}
    assert warnings == {(cause, "node:n2")}


def test_a_node_that_differs_from_the_first_day_is_a_note() -> None:
    watts = job_of(400, 8, seed=4)
    watts[:, 5] *= 1.2
    (found,) = panel_findings(nodes_frame(watts, rate_hz=0.2), topology=many_nodes(8))
    assert (found.cause, found.severity) == (Cause.ODD_NODE, Severity.INFO)
    assert "7 siblings at the same work, as it did before" in found.summary


def test_nodes_with_loads_of_their_own_are_not_compared() -> None:
    watts = np.stack([job_of(400, 1, seed=seed)[:, 0] for seed in range(8)], axis=1)
    watts *= 1.0 + 0.05 * np.random.default_rng(1).standard_normal(watts.shape)
    watts[200:, 2] *= 1.1
    found = panel_findings(nodes_frame(watts, rate_hz=0.2), topology=many_nodes(8))
    assert not [one for one in found if one.detector.startswith("node_siblings")]


def test_twelve_nodes_in_step_are_compared_though_four_others_go_their_own_way() -> None:
    watts = job_of(400, 16, seed=4)
    watts[:, 12:] = np.stack([job_of(400, 1, seed=seed)[:, 0] for seed in range(10, 14)], axis=1)
    watts[200:, 2] *= 1.06
    found = panel_findings(nodes_frame(watts, rate_hz=0.2), topology=many_nodes(16))
    assert {one.entity_id for one in found if one.cause is Cause.ODD_NODE} == {"node:n2"}


def test_two_names_for_one_meter_are_one_witness() -> None:
    watts = job_of(400, 6, seed=4)
    watts[:, 3] = watts[:, 1]
    found = panel_findings(nodes_frame(watts, rate_hz=0.2), topology=many_nodes(6))
    assert {(one.cause, one.severity) for one in found} == {(Cause.SENSOR_FAULT, Severity.INFO)}
    assert "are one meter by every bit" in found[0].summary


def efficient(*, loss: float, node: bool) -> list[Finding]:
    """Return findings of supplies, or of a node and its supplies, read every ten seconds; one wastes more from 200."""
    rng = np.random.default_rng(5)
    out_w = 900.0 * (1.0 + 0.01 * rng.standard_normal((400, 2)))
    in_w = out_w / 0.95 * (1.0 + 0.002 * rng.standard_normal((400, 2)))
    in_w[200:, 0] /= 1.0 - loss
    columns = {"voltage_v": np.full((400, 2), 12.1), "power_w": out_w}
    members = tuple(replace(supply(number), tags=(("nominal_v", "12"),)) for number in range(2))
    owner = Entity(kind=EntityKind.NODE, key="n0", name="n0")
    topology = Topology(entities=(owner, *members), edges=tuple((owner.id, one.id) for one in members))
    if not node:
        columns["input_power_w"] = in_w
    supplies = frame_of(EntityKind.SUPPLY, members, columns, rate_hz=0.1, name="supplies")
    nodes = nodes_frame(in_w.sum(axis=1, keepdims=True), rate_hz=0.1)
    return together(*([supplies, nodes] if node else [supplies]), topology=topology)


@pytest.mark.parametrize(("node", "loss"), [(False, 0.01), (True, 0.02)])
def test_an_efficiency_that_falls_is_named_where_both_sides_are_measured(*, node: bool, loss: float) -> None:
    found = [one for one in efficient(loss=loss, node=node) if one.cause is Cause.EFFICIENCY_LOSS]
    assert found[0].entity_id == ("node:n0" if node else supply(0).id)
    assert "usually 94.9 %" in found[0].summary or "usually 95.0 %" in found[0].summary
    assert found[-1].status is FindingStatus.RAISED


@pytest.mark.parametrize("node", [False, True])
def test_an_efficiency_that_stays_has_no_finding(*, node: bool) -> None:
    assert not [one for one in efficient(loss=0.0, node=node) if one.cause is Cause.EFFICIENCY_LOSS]
