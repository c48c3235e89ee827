"""The PDU collector against Debian's snmpd."""

import logging
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agent.collectors.meters import factories
from agent.collectors.meters.pdu import Pdu
from agent.collectors.meters.settings import Authentication, OidReading, PduSettings, Privacy, SnmpVersion
from agent.collectors.port import BuiltCollector, SourceState
from agent.collectors.registry.settings import SlowSettings
from telemetry.errors import TransientError
from tests.agent.collectors.meters.devices import APC, APC_PDU, EATON_PDU
from tests.agent.collectors.meters.snmpd import AUTH_PASSWORD, PRIVACY_PASSWORD, Snmpd, snmpd
from tests.agent.fakes import FakeClock

pytest.importorskip("pysnmp")
pytestmark = pytest.mark.integration


def over_v2c(agent: Snmpd, name: str = "pdu-a", oids: tuple[OidReading, ...] = ()) -> PduSettings:
    return PduSettings(name=name, host="127.0.0.1", port=agent.port, timeout_s=0.5, oids=oids)


def over_v3(agent: Snmpd, *, password: str = AUTH_PASSWORD) -> PduSettings:
    return replace(
        over_v2c(agent),
        version=SnmpVersion.V3,
        user="reader",
        authentication=Authentication.SHA1,
        authentication_password=password,
        privacy=Privacy.AES128,
        privacy_password=PRIVACY_PASSWORD,
    )


def built_pdu(*settings: PduSettings) -> BuiltCollector:
    return factories.pdu(SlowSettings(node="n", clock=FakeClock(), pdus=settings))


def found(*settings: PduSettings) -> Pdu:
    built = built_pdu(*settings)
    assert isinstance(built.source, Pdu), built.status
    return built.source


def cells(collector: Pdu) -> Mapping[tuple[str, str], float]:
    values = np.full(collector.spec.shape, -12345.0)
    collector.read(values)
    return {
        (entity.key, name): float(values[row, column])
        for row, entity in enumerate(collector.spec.entities)
        for column, name in enumerate(collector.spec.signals)
    }


def test_values_come_through_and_change_with_the_agent(tmp_path: Path) -> None:
    with snmpd(tmp_path, APC_PDU) as agent:
        collector = found(over_v2c(agent))
        before = cells(collector)
        assert before["pdu-a/phase-1", "mains_voltage_v"] == 228.0
        assert before["pdu-a/outlet-1", "mains_power_w"] == 590.0
        assert np.isnan(before["pdu-a/outlet-1", "mains_voltage_v"])
        agent.serve({**APC_PDU, f"{APC}.6.3.1.6.1": 197})
        assert cells(collector)["pdu-a/phase-1", "mains_voltage_v"] == 197.0
        collector.close()


def test_version_3_reads_the_same_with_the_right_passwords_and_reports_wrong_ones(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    with snmpd(tmp_path, APC_PDU) as agent:
        collector = found(over_v3(agent))
        assert cells(collector)["pdu-a/phase-1", "mains_voltage_v"] == 228.0
        collector.close()
        refused = built_pdu(over_v3(agent, password="something else"))
        assert refused.source is None
        assert refused.status.state is SourceState.FAILED
        assert "digest" in refused.status.detail
        assert "something else" not in repr(over_v3(agent, password="something else"))


def test_a_pdu_that_is_away_is_absent_and_logged_once_while_the_other_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with snmpd(tmp_path / "a", APC_PDU) as first, snmpd(tmp_path / "b", EATON_PDU) as second:
        collector = found(over_v2c(first), over_v2c(second, "pdu-b"))
        assert cells(collector)["pdu-b/phase-0-1-1", "mains_voltage_v"] == pytest.approx(230.123)
        assert second.process is not None
        second.process.send_signal(signal.SIGSTOP)
        with caplog.at_level(logging.INFO):
            away = [cells(collector) for _ in range(2)]
            second.process.send_signal(signal.SIGCONT)
            back = cells(collector)
        for one in away:
            assert one["pdu-a/phase-1", "mains_voltage_v"] == 228.0
            assert all(np.isnan(value) for (key, _), value in one.items() if key.startswith("pdu-b/"))
        assert back["pdu-b/phase-0-1-1", "mains_voltage_v"] == pytest.approx(230.123)
        assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
        first.end()
        second.end()
        with pytest.raises(TransientError, match="pdu-a"):
            cells(collector)
        collector.close()


def test_a_text_where_a_number_is_expected_is_absent_counted_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with snmpd(tmp_path, APC_PDU) as agent:
        collector = found(over_v2c(agent))
        agent.serve({**APC_PDU, f"{APC}.6.3.1.6.1": "<html>"})
        read = [cells(collector) for _ in range(3)]
        assert all(np.isnan(one["pdu-a/phase-1", "mains_voltage_v"]) for one in read)
        assert all(one["pdu-a/phase-1", "mains_current_a"] == pytest.approx(2.8) for one in read)
        assert collector.refused == 3
        assert sum("ignoring value" in record.message for record in caplog.records) == 1
        collector.close()


def test_listed_objects_are_read_instead_of_tables(tmp_path: Path) -> None:
    with snmpd(tmp_path, {"1.3.6.1.4.1.99999.1": 23055}) as agent:
        oids = (OidReading(part="inlet", signal="mains_voltage_v", oid="1.3.6.1.4.1.99999.1.0", factor=0.01),)
        nothing = built_pdu(over_v2c(agent))
        assert nothing.source is None
        assert "oids" in nothing.status.detail
        agent.serve({"1.3.6.1.4.1.99999.1.0": 23055})
        collector = found(over_v2c(agent, oids=oids))
        assert cells(collector)["pdu-a/inlet", "mains_voltage_v"] == pytest.approx(230.55)
        collector.close()


def test_a_value_on_the_wrong_scale_is_absent_and_counted(tmp_path: Path) -> None:
    with snmpd(tmp_path, {"1.3.6.1.4.1.99999.1": 23055}) as agent:
        oids = (OidReading(part="inlet", signal="mains_voltage_v", oid="1.3.6.1.4.1.99999.1.0", factor=10),)
        agent.serve({"1.3.6.1.4.1.99999.1.0": 23055})
        collector = found(over_v2c(agent, oids=oids))
        assert np.isnan(cells(collector)["pdu-a/inlet", "mains_voltage_v"])
        assert collector.refused == 1
        collector.close()


def test_a_pdu_that_does_not_respond_has_failed_and_is_no_collector(tmp_path: Path) -> None:
    with snmpd(tmp_path, APC_PDU) as agent:
        agent.end()
        built = built_pdu(over_v2c(agent))
        assert built.source is None
        assert built.status.state is SourceState.FAILED
        assert "no response" in built.status.detail
        assert built.status.how_to_get


def test_without_a_configured_pdu_the_source_is_missing_and_how_to_get_it_is_stated() -> None:
    built = built_pdu()
    assert (built.source, built.status.state) == (None, SourceState.MISSING)
    assert "sources.pdus" in built.status.how_to_get
