from dataclasses import replace
from importlib.metadata import packages_distributions

import numpy as np
import pytest

from telemetry.clock import SystemClock, iso_utc
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import Frame, TableSpec
from telemetry.record_json import from_json, to_json
from telemetry.records import Cause, Evidence, Finding, FindingStatus, Incident, Record, Severity
from telemetry.signals import CATALOGUE, SignalKind, Source, signal, signals_of
from tests import record_samples

UNIT_SUFFIXES = {
    "W": "_w",
    "J": "_j",
    "MHz": "_mhz",
    "Hz": "_hz",
    "°C": "_c",
    "V": "_v",
    "A": "_a",
    "s": "_s",
    "B": "_bytes",
    "B/s": "_bytes_per_s",
    "ratio": "_ratio",
    "rpm": "_rpm",
}

FINDING = Finding(
    id="rail_sag:supply:psu0:1",
    time_ns=1_700_000_000_123_456_789,
    since_ns=1_700_000_000_000_000_000,
    detector="rail_sag",
    cause=Cause.SUPPLY_SAG,
    entity_id="supply:psu0",
    status=FindingStatus.RAISED,
    severity=Severity.CRITICAL,
    score=0.8,
    summary="12 V down to 11.31 V",
    evidence=(Evidence(name="minimum_v", value=11.31, unit="V"),),
)
RECORDS: tuple[Record, ...] = (
    FINDING,
    replace(record_samples.EVENT, sources=("kernel_log",)),
    replace(
        record_samples.INCIDENT,
        id="i",
        time_ns=2,
        severity=Severity.CRITICAL,
        impact_gpu_hours=2.0,
        findings=(FINDING,),
    ),
    replace(record_samples.DECISION, time_ns=3, incident_id="i", targets=("gpu:x",)),
    replace(record_samples.ACTION, time_ns=4, incident_id="i", entity_id="gpu:x", lease_until_ns=5),
    replace(record_samples.OUTCOME, time_ns=5, incident_id="i"),
)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_every_record_comes_back_from_its_json(record: Record) -> None:
    fields = to_json(record)
    assert fields["time"].endswith("Z")
    assert from_json(fields) == record


def test_an_unknown_record_type_is_named() -> None:
    with pytest.raises(ValueError, match="record type 'rumour': expected one of event, finding"):
        from_json({"type": "rumour"})


def test_the_newest_evidence_of_an_incident_is_found_by_name() -> None:
    incident = RECORDS[2]
    assert isinstance(incident, Incident)
    assert incident.number("minimum_v") == 11.31
    assert incident.number("absent") is None


def test_stamps_are_utc_with_microseconds() -> None:
    assert iso_utc(1_700_000_000_123_456_789) == "2023-11-14T22:13:20.123456Z"


def test_the_system_clock_reaches_its_deadline() -> None:
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + 0.01
    clock.sleep_until(deadline_s)
    assert clock.monotonic_s() >= deadline_s
    clock.sleep_until(deadline_s - 1)


def test_every_signal_is_declared_once_and_its_name_ends_in_its_unit() -> None:
    names = [(item.entity, item.name) for item in CATALOGUE]
    assert len(names) == len(set(names))
    for item in CATALOGUE:
        if item.unit:
            assert item.name.endswith(UNIT_SUFFIXES[item.unit]), item.name
        assert item.decimals == 0 or item.kind is not SignalKind.FLAGS


def test_no_rollup_has_the_name_of_another_signal() -> None:
    names = {(one.entity, one.name) for one in CATALOGUE}
    assert not [
        name for entity, name in names for end in ("mean", "min", "max", "last") if (entity, f"{name}_{end}") in names
    ]


def test_signals_are_found_by_entity_source_and_rate() -> None:
    assert signal(EntityKind.SUPPLY, "voltage_v").unit == "V"
    assert [item.name for item in signals_of(EntityKind.SUPPLY, source=Source.HWMON)][:2] == ["voltage_v", "current_a"]
    with pytest.raises(KeyError, match="not in the signal catalogue"):
        signal(EntityKind.SUPPLY, "volts")


def _entity(kind: EntityKind, key: str) -> Entity:
    return Entity(kind=kind, key=key, name=key)


def test_topology_answers_who_feeds_whom() -> None:
    psu, gpu = _entity(EntityKind.SUPPLY, "psu0"), _entity(EntityKind.GPU, "GPU-1")
    topology = Topology(entities=(psu, gpu), edges=((psu.id, gpu.id),))
    assert topology.parents(gpu.id) == (psu,)
    assert topology.children(psu.id) == (gpu,)
    assert topology.of_kind(EntityKind.GPU) == (gpu,)
    with pytest.raises(ValueError, match="which is not an entity"):
        Topology(entities=(psu,), edges=((psu.id, "gpu:none"),))


def test_jobs_are_tied_to_the_gpus_that_they_compute_on_until_others_are() -> None:
    node = Entity(kind=EntityKind.NODE, key="box", name="box")
    gpus = tuple(Entity(kind=EntityKind.GPU, key=f"GPU-{n}", name=f"gpu{n}") for n in range(2))
    held = tuple((node.id, gpu.id) for gpu in gpus)
    plain = Topology(entities=(node, *gpus), edges=held)
    both = plain.with_jobs((("slurm:1", gpus[0].id), ("slurm:1", gpus[1].id), ("slurm:1", "gpu:elsewhere")))
    assert both.children("job:slurm:1") == gpus
    assert both.parents(gpus[0].id) == (node, both.entity("job:slurm:1"))
    moved = both.with_jobs((("slurm:2", gpus[1].id),))
    assert moved.edges == (*held, ("job:slurm:2", gpus[1].id))
    assert both.with_jobs(()).edges == held


def test_a_frame_refuses_arrays_of_another_shape() -> None:
    spec = TableSpec(
        name="supply",
        kind=EntityKind.SUPPLY,
        entities=(_entity(EntityKind.SUPPLY, "psu0"),),
        signals=("voltage_v", "current_a"),
    )
    frame = Frame(
        spec=spec,
        time_ns=np.arange(3, dtype=np.int64),
        values=np.arange(6.0).reshape(3, 1, 2),
        fresh=np.ones((3, 1, 2), dtype=bool),
    )
    assert frame.signal("current_a").tolist() == [[1.0], [3.0], [5.0]]
    assert len(frame.rows(1, 3)) == 2
    with pytest.raises(ValueError, match=r"table supply: values \(3, 1, 2\)"):
        Frame(spec=spec, time_ns=np.arange(2, dtype=np.int64), values=frame.values, fresh=frame.fresh)


def test_no_other_distribution_owns_the_import_names() -> None:
    owners = packages_distributions()
    for name in ("railwatch", "telemetry", "agent", "analytics", "rules", "simulator", "dashboards"):
        assert set(owners.get(name, ["railwatch"])) == {"railwatch"}, name
