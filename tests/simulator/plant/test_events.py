"""Every event has a sentence."""

from simulator.files.node import load_node
from simulator.plant.events import PlantEvent, PlantEventKind, sentence

NODE = load_node("v100x4")


def test_every_kind_of_event_is_a_sentence_without_a_code_name() -> None:
    of_supply = (PlantEventKind.OVER_CURRENT, PlantEventKind.SUPPLY_OFF, PlantEventKind.SUPPLY_ON)
    for kind in PlantEventKind:
        supply = 1 if kind in of_supply else None
        expected = sentence(PlantEvent(time_ms=0, kind=kind, gpu=0, supply=supply, code=79), NODE)
        assert "_" not in expected
        assert "None" not in expected


def test_it_names_who_it_is_about() -> None:
    assert sentence(PlantEvent(time_ms=0, kind=PlantEventKind.XID, gpu=2, code=79), NODE) == "gpu2: Xid 79"
    tripped = PlantEvent(time_ms=0, kind=PlantEventKind.OVER_CURRENT, supply=1)
    assert sentence(tripped, NODE) == "psu1 tripped: over-current"
