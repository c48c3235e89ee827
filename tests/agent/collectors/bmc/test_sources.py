"""Sources of a controller, the status of missing ones, and that no password is ever shown."""

from pathlib import Path

import pytest

from agent.collectors.bmc import factories, ipmitool
from agent.collectors.bmc.redfish_client import ROOT
from agent.collectors.bmc.settings import BmcKind, BmcSettings, Transport
from agent.collectors.bmc.sources import BoardSource
from agent.collectors.port import SourceState
from agent.collectors.registry.settings import SlowSettings
from agent.sampler.settings import Pace, SamplerSettings
from config.loading import load_config
from config.models import Config
from telemetry.errors import ConfigError, NotPermittedError
from tests.agent.collectors.bmc.redfish_trees import CHASSIS, SENSORS, at, sensor
from tests.agent.collectors.bmc.services import Tree, served
from tests.agent.fakes import FakeClock

TREE = {
    ROOT: {"Chassis": at(f"{ROOT}Chassis")},
    f"{ROOT}Chassis": {"Members": [at(CHASSIS)]},
    CHASSIS: {**at(CHASSIS), "Sensors": at(SENSORS)},
    SENSORS: {"Members": [at(f"{SENSORS}/a")]},
    f"{SENSORS}/a": sensor("a", "P12V", 12.1),
}


def source_of(port: int | None = None, **changes: object) -> BoardSource:
    settings = {"address": "127.0.0.1", "port": port, "transport": Transport.PLAIN, "kind": BmcKind.REDFISH} | changes
    return BoardSource(BmcSettings(**settings), node="n", clock=FakeClock())  # type: ignore[arg-type]  # of a test


def settings_of(source: BoardSource | None) -> SlowSettings:
    return SlowSettings(node="n", clock=FakeClock(), board=source)


def test_a_controller_that_responds_has_its_sources() -> None:
    with served(Tree(resources=dict(TREE))) as port:
        source = source_of(port)
        node, supplies, fans = (
            factories.bmc(settings_of(source)),
            factories.bmc_supplies(settings_of(source)),
            factories.bmc_fans(settings_of(source)),
        )
        assert (node.status.state, supplies.status.state) == (SourceState.WORKING, SourceState.WORKING)
        assert node.status.detail == f"Redfish at http://127.0.0.1:{port}"
        assert supplies.status.detail == "P12V (12 V by label)"
        assert fans.source is None
        assert "shows no fan" in fans.status.detail
        assert factories.bmc_log(settings_of(source)) is not None
        assert node.source is not None
        node.source.close()


def test_one_that_does_not_respond_has_failed_and_is_queried_once_for_all_three() -> None:
    tree = Tree(status={ROOT: 503})
    with served(tree) as port:
        source = source_of(port)
        states = [
            make(settings_of(source)).status.state
            for make in (factories.bmc, factories.bmc_supplies, factories.bmc_fans)
        ]
    assert states == [SourceState.FAILED, SourceState.MISSING, SourceState.MISSING]
    assert factories.bmc(settings_of(source)).status.how_to_get
    assert factories.bmc_log(settings_of(source)) is None
    assert len(tree.requests_seen) == 1


def test_a_user_that_is_refused_is_not_permitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPMI_PASSWORD", "wrong")
    with served(Tree(resources=dict(TREE), wants_login=True)) as port:
        status = factories.bmc(settings_of(source_of(port, user="monitor"))).status
    assert status.state is SourceState.NOT_PERMITTED
    assert "wrong" not in status.detail


@pytest.mark.parametrize(("interval_s", "pace"), [(1.0, SamplerSettings().slow), (10.0, SamplerSettings().rare)])
def test_a_round_ends_before_the_sampler_takes_it_for_hung(interval_s: float, pace: Pace) -> None:
    assert BmcSettings(interval_s=interval_s).round_s < pace.hung_after_s


def test_switched_off_is_reported_and_no_controller_is_queried() -> None:
    for source in (None, source_of(kind=BmcKind.OFF)):
        status = factories.bmc(settings_of(source)).status
        assert (status.state, status.detail) == (SourceState.MISSING, "switched off by configuration")
        assert factories.bmc_log(settings_of(source)) is None


def test_a_machine_without_a_device_reports_how_to_get_a_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ipmitool, "DEVICES", ())
    status = factories.bmc(settings_of(source_of(kind=BmcKind.AUTO))).status
    assert status.state is SourceState.MISSING
    assert "/dev/ipmi0" in status.how_to_get


def test_without_ipmitool_the_source_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    status = factories.bmc(settings_of(source_of(kind=BmcKind.IPMI))).status
    assert (status.state, status.detail) == (SourceState.MISSING, "ipmitool is not installed")
    assert status.how_to_get.startswith("install ipmitool")


def test_a_password_file_that_cannot_be_read_is_what_the_help_speaks_of(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    with served(Tree(resources=dict(TREE), wants_login=True)) as port:
        status = factories.bmc(settings_of(source_of(port, user="monitor", password_file=absent))).status
    assert status.state is SourceState.NOT_PERMITTED
    assert status.how_to_get.startswith(f"write the password to {absent}")


def test_the_password_comes_from_a_file_or_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BMC_SECRET", "by variable")
    assert BmcSettings(password_variable="BMC_SECRET").password() == "by variable"
    (tmp_path / "secret").write_text("by file\n", encoding="utf-8")
    assert BmcSettings(password_file=tmp_path / "secret").password() == "by file"
    with pytest.raises(NotPermittedError, match="absent"):
        BmcSettings(password_file=tmp_path / "absent").password()


def configured(**keys: str) -> Config:
    return load_config(None, {f"RAILWATCH_SOURCES__BMC__{key.upper()}": value for key, value in keys.items()})


def test_a_configuration_has_no_place_for_a_password_and_no_dump_shows_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPMI_PASSWORD", "h1dden")
    config = configured(kind="redfish", address="bmc1", user="monitor", interval="5s")
    assert config.sources.bmc.settings().interval_s == 5.0
    assert "h1dden" not in config.model_dump_json() + repr(config) + repr(config.sources.bmc.settings())
    with pytest.raises(ConfigError, match="unknown variable"):
        configured(kind="redfish", address="bmc1", password="h1dden")


def test_a_way_over_the_net_wants_an_address() -> None:
    with pytest.raises(ConfigError, match="address: required when kind is ipmi"):
        configured(kind="ipmi")
