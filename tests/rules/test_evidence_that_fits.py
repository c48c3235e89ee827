"""Basis of a prediction: powers, currents and voltages of one and the same load."""

from dataclasses import replace

from physics.node_state import MeasuredGpu, MeasuredNode, MeasuredSupply
from rules.caps.supply_basis import SupplyBasis, bases_of, path_now
from telemetry.entities import Topology
from telemetry.records import (
    Evidence,
    Incident,
)
from tests import record_samples

_SUPPLY, _GPU = "supply:psu0", "gpu:a"


def _incident(**numbers: float) -> Incident:
    finding = replace(
        record_samples.FINDING,
        id="f1",
        detector="rail_sag",
        entity_id=_SUPPLY,
        summary="",
        evidence=tuple(Evidence(name=name, value=value, unit="") for name, value in numbers.items()),
    )
    return replace(
        record_samples.INCIDENT, id="i1", entity_id=_SUPPLY, affected=(_SUPPLY,), summary="", findings=(finding,)
    )


def _bases(
    *, gpu_high_w: float, supply: MeasuredSupply | None = None, **numbers: float
) -> tuple[tuple[SupplyBasis, ...], str]:
    gpu = MeasuredGpu(
        entity_id=_GPU,
        max_clock_mhz=1530.0,
        supported_mhz=(765.0, 1530.0),
        clock_mhz=1530.0,
        power_high_w=gpu_high_w,
        power_low_w=40.0,
    )
    node = MeasuredNode(gpus=(gpu,), supplies=() if supply is None else (supply,))
    found = {"open_circuit_v": 12.3, "source_resistance_ohm": 0.02, "current_high_a": 40.0, "current_low_a": 10.0}
    return bases_of(_incident(**(found | numbers)), node, targets=(_GPU,), topology=Topology(entities=(), edges=()))


def test_a_supply_that_swings_more_than_its_gpus_draw_is_not_predicted_from_their_power() -> None:
    bases, doubt = _bases(gpu_high_w=42.0, minimum_v=11.2)
    assert bases == ()
    assert "not yet that of the load" in doubt
    bases, _ = _bases(gpu_high_w=400.0, minimum_v=11.2)
    assert len(bases) == 1


def test_the_dip_is_read_against_the_currents_of_its_own_window() -> None:
    """The deepest voltage of the incident was seen at full clocks; what is measured now is the capped load."""
    now = MeasuredSupply(
        entity_id=_SUPPLY,
        minimum_v=11.45,
        open_circuit_v=12.3,
        source_resistance_ohm=0.02,
        current_high_a=40.0,
        current_low_a=10.0,
    )
    (live,), _ = _bases(gpu_high_w=400.0, supply=now, minimum_v=10.9)
    assert abs(live.path.transient_ohm - (12.3 - 0.02 * 40.0 - 11.45) / 30.0) < 1e-9
    (found,), _ = _bases(gpu_high_w=400.0, minimum_v=11.2)
    assert abs(found.path.transient_ohm - (12.3 - 0.02 * 40.0 - 11.2) / 30.0) < 1e-9


def test_a_finding_older_than_the_samples_of_a_cap_does_not_stand_in_for_them() -> None:
    """After a change of clock, and while the node rests, no window shows the source."""
    now = MeasuredSupply(
        entity_id=_SUPPLY,
        minimum_v=11.45,
        open_circuit_v=12.3,
        source_resistance_ohm=0.02,
        current_high_a=40.0,
        current_low_a=10.0,
    )
    (basis,), _ = _bases(gpu_high_w=400.0, supply=now, source_resistance_ohm=0.03)
    incident = _incident(open_circuit_v=12.3, source_resistance_ohm=0.03)
    resting = MeasuredNode(gpus=(), supplies=(MeasuredSupply(entity_id=_SUPPLY, minimum_v=12.0),))
    assert path_now(basis, incident, resting).source_resistance_ohm == 0.02
    newer = replace(incident, findings=tuple(replace(one, time_ns=2) for one in incident.findings))
    assert path_now(basis, newer, resting).source_resistance_ohm == 0.03
