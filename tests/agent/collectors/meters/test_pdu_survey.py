"""Survey of PDU tables, from recorded values."""

import asyncio
from collections.abc import Mapping

import pytest

from agent.collectors.meters.pdu_mibs import Oid, PduChannel, SnmpValue, parse_oid
from agent.collectors.meters.pdu_survey import PduSurvey, channels_of, survey_pdu
from agent.collectors.meters.settings import OidReading
from tests.agent.collectors.meters.devices import APC, APC_PDU, EATON_PDU, ENTITY_PDU, RARITAN_PDU

Objects = Mapping[str, int | str]
WH_J = 3600.0


def survey(objects: Objects) -> PduSurvey:
    known = {parse_oid(name): value for name, value in objects.items()}

    async def walk(root: Oid) -> Mapping[Oid, SnmpValue]:
        return {name[len(root) :]: value for name, value in known.items() if name[: len(root)] == root}

    return asyncio.run(survey_pdu(walk))


def values(objects: Objects) -> dict[tuple[str, str], float]:
    known = {parse_oid(name): value for name, value in objects.items()}
    return {
        (one.part, one.signal): one.value(known.get(one.oid), None if one.status is None else known.get(one.status))
        for one in survey(objects).channels
    }


@pytest.mark.parametrize(
    ("objects", "mib", "wanted"),
    [
        (
            APC_PDU,
            "PowerNet-MIB rPDU2",
            {
                ("unit-1", "mains_power_w"): 570.0,
                ("unit-1", "mains_energy_j"): 482.1e3 * WH_J,
                ("phase-1", "mains_current_a"): 2.8,
                ("phase-1", "mains_voltage_v"): 228.0,
                ("phase-1", "mains_power_w"): 570.0,
                ("outlet-1", "mains_current_a"): 2.6,
                ("outlet-1", "mains_power_w"): 590.0,
            },
        ),
        (
            EATON_PDU,
            "EATON-EPDU-MIB",
            {
                ("inlet-0-1", "mains_frequency_hz"): 49.9,
                ("phase-0-1-1", "mains_voltage_v"): 230.123,
                ("phase-0-1-1", "mains_current_a"): 8.456,
                ("phase-0-1-1", "mains_power_w"): 1890.0,
                ("phase-0-1-1", "mains_energy_j"): 7200 * WH_J,
                ("outlet-0-3", "mains_power_w"): 410.0,
            },
        ),
        (
            RARITAN_PDU,
            "PDU2-MIB",
            {
                ("inlet-1-1", "mains_current_a"): 10.25,
                ("inlet-1-1", "mains_voltage_v"): 231.0,
                ("inlet-1-1", "mains_power_w"): float("nan"),
                ("inlet-1-1", "mains_energy_j"): 5000 * WH_J,
                ("inlet-1-1", "mains_frequency_hz"): 50.1,
            },
        ),
        (
            ENTITY_PDU,
            "ENTITY-SENSOR-MIB",
            {("sensor-5", "mains_voltage_v"): 229.5, ("sensor-6", "mains_power_w"): float("nan")},
        ),
    ],
    ids=["apc", "eaton", "raritan", "entity sensors"],
)
def test_each_vendor_s_tables_are_found_and_read_in_our_units(
    objects: Objects, mib: str, wanted: dict[tuple[str, str], float]
) -> None:
    assert survey(objects).mib == mib
    assert values(objects) == pytest.approx(wanted, nan_ok=True)


def test_a_vendor_s_own_table_takes_precedence_over_the_standard_one() -> None:
    assert survey({**ENTITY_PDU, **EATON_PDU}).mib == "EATON-EPDU-MIB"


def test_the_configured_name_of_an_outlet_is_its_label() -> None:
    labels = {one.part: one.label for one in survey(APC_PDU).channels}
    assert labels["outlet-1"] == "gpu-node-7"
    assert labels["phase-1"] == ""


def test_a_column_that_the_model_does_not_measure_is_left_out_and_one_outlet_without_is_absent() -> None:
    some = {**APC_PDU, f"{APC}.9.4.3.1.7.2": -1}
    assert ("outlet-1", "mains_energy_j") not in values(some)
    assert values(some)["outlet-2", "mains_power_w"] != values(some)["outlet-2", "mains_power_w"]


def test_a_device_with_none_of_the_tables_returns_nothing() -> None:
    assert survey({"1.3.6.1.2.1.1.1.0": "a printer"}) == PduSurvey(mib="", channels=())


@pytest.mark.parametrize("text", ["hello", "", "nan", "inf"])
def test_a_text_where_a_number_is_expected_is_refused(text: str) -> None:
    channel = PduChannel(part="inlet", signal="mains_voltage_v", oid=(1, 3), factor=1.0)
    with pytest.raises(ValueError, match=r"."):
        channel.value(text, None)


def test_no_such_object_is_absent() -> None:
    channel = PduChannel(part="inlet", signal="mains_voltage_v", oid=(1, 3), factor=1.0)
    assert str(channel.value(None, None)) == "nan"


@pytest.mark.parametrize("text", ["", "1", "iso.3.6", "1.3.x", "1..3", "1.-3"])
def test_what_is_no_object_identifier_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="object identifier"):
        channels_of((OidReading(part="inlet", signal="mains_voltage_v", oid=text),))
