"""A proposed wiring as YAML: names read back as they are, whatever a recording names its supplies and GPUs."""

import pytest
import yaml

from analytics.connectivity.wiring_learning import LearntLink, LearntWiring
from railwatch.operator.wiring_proposal import WiringProposal, description_lines
from telemetry.entities import Entity, EntityKind

_SURE = LearntLink(bus=0, confidence=0.999)


@pytest.mark.parametrize(
    "name", ["psu0", "pmbus-hwmon1", "PSU 1", "12", "1e3", "0x1f", "on", "null", 'a"b', "a\\b", "a: b", "#x", "p\nq: 1"]
)
def test_every_name_reads_back_as_it_is(name: str) -> None:
    supply, gpu, lost = (
        Entity(kind=kind, key=name, name=name) for kind in (EntityKind.SUPPLY, EntityKind.GPU, EntityKind.SUPPLY)
    )
    learnt = LearntWiring(supplies=(_SURE,), gpus=(_SURE,), n_steps=40)
    proposal = WiringProposal(supplies=(supply,), gpus=(gpu,), learnt=learnt, left_out=(lost,))
    found = yaml.safe_load("\n".join(description_lines(proposal, source="a.parquet")))["topology"]
    assert found["supplies"] == [{"name": name}]
    assert found["buses"] == [{"name": "bus0", "supplies": [name], "branches": [{"gpus": [name]}]}]
