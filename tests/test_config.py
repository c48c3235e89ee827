from pathlib import Path

import pytest
import yaml

from config.guard_pipeline import pipeline_settings
from config.loading import load_config
from config.models import ActionMode, Config
from config.reference import reference_markdown, sample_yaml
from config.store import StoreKind
from telemetry.errors import ConfigError
from telemetry.records import Mode


def problems(text: str, tmp_path: Path, **environ: str) -> list[str]:
    path = tmp_path / "railwatch.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path, environ)
    return [str(problem).replace(str(path), "FILE") for problem in caught.value.problems]


def test_without_a_file_the_defaults_hold() -> None:
    assert load_config(None, {}) == Config()


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "railwatch.yaml"
    path.write_text("store: {kind: influxdb1, url: 'http://one:8086'}\n")
    config = load_config(path, {"RAILWATCH_STORE__URL": "http://two:8086", "RAILWATCH_SAMPLING__FAST_HZ": "50"})
    assert config.store.kind is StoreKind.INFLUXDB1
    assert config.store.url == "http://two:8086"
    assert config.sampling.fast_hz == 50


def test_the_guard_and_a_replay_judge_by_the_described_wiring(tmp_path: Path) -> None:
    path = tmp_path / "railwatch.yaml"
    bus = "{name: main, nominal_v: 12, supplies: [psu0], branches: [{gpus: all}]}"
    path.write_text(f"topology: {{supplies: [{{name: psu0, rated_w: 1100}}], buses: [{bus}]}}\n")
    config = load_config(path, {})
    for simulated in (False, True):
        wiring = pipeline_settings(config, simulated=simulated).wiring
        assert wiring == config.topology.wiring()
        assert wiring is not None
    assert pipeline_settings(Config(), simulated=True).wiring is None


def test_every_key_can_be_set_by_the_environment_however_deep_it_lies() -> None:
    environ = {"RAILWATCH_INCIDENTS__CONFIRM_S": "8s", "RAILWATCH_DETECTORS__RAIL_SAG__MINIMUM_V": "11.39"}
    config = load_config(None, environ)
    assert config.incidents.confirm_s == 8.0
    assert config.detectors.rail_sag.minimum_v == 11.39


def test_every_problem_of_file_and_environment_is_reported_at_once(tmp_path: Path) -> None:
    found = problems(
        "sampling:\n  fast_hz: 0\n  ring: 120\nstor:\n  kind: embedded\npage:\n  host: 0.0.0.0\n",
        tmp_path,
        RAILWATCH_SAMPLING__SLOW_HZ="often",
        RAILWATCH_STORE__KIMD="embedded",
    )
    assert sorted(found) == [
        "FILE:2: sampling.fast_hz: got 0; expected at least 1",
        "FILE:3: sampling.ring: got 120; expected a duration with its unit, such as 200ms, 30s, 10m, 1h or 7d",
        "FILE:4: stor: unknown key; expected one of the known keys, perhaps store",
        "FILE:6: page.token: missing; expected 16 characters or more: required unless host is a loopback address",
        "RAILWATCH_SAMPLING__SLOW_HZ: sampling.slow_hz: got 'often'; expected a number",
        "RAILWATCH_STORE__KIMD: store.kimd: unknown variable; expected RAILWATCH_SECTION__KEY of a known key",
    ]


def test_an_unknown_key_is_reported_with_the_one_it_resembles_however_deep_it_lies(tmp_path: Path) -> None:
    assert problems("store:\n  knd: embedded\ndetectors:\n  rail_sag:\n    minimun_v: 11\n", tmp_path) == [
        "FILE:2: store.knd: unknown key; expected one of the known keys, perhaps kind",
        "FILE:5: detectors.rail_sag.minimun_v: unknown key; expected one of the known keys, perhaps minimum_v",
    ]


def test_a_server_needs_an_address(tmp_path: Path) -> None:
    (found,) = problems("store:\n  kind: influxdb1\n", tmp_path)
    assert found == (
        "FILE:1: store.url: missing; expected the address of the server, such as http://127.0.0.1:8086: "
        "required when kind is influxdb1"
    )


def test_a_file_that_holds_a_list_is_refused(tmp_path: Path) -> None:
    assert problems("- a\n", tmp_path) == [
        "FILE:1: (document): got a list; expected a mapping of keys to values, such as node: {name: gpu017}"
    ]


def test_the_sample_file_uncommented_is_the_default_configuration() -> None:
    keys = [line.replace("#", "", 1) for line in sample_yaml().splitlines() if line.lstrip()[:2] != "# " and line]
    assert Config.model_validate(yaml.safe_load("\n".join(keys))) == Config()


def test_the_reference_names_every_key() -> None:
    page = reference_markdown()
    for section, field in Config.model_fields.items():
        assert section in page
        for key in getattr(field.annotation, "model_fields", {}):
            assert f"`{section}.{key}`" in page


def test_auto_enforces_on_a_simulated_node_only() -> None:
    assert ActionMode.AUTO.resolve(simulated=True) is Mode.ENFORCE
    assert ActionMode.AUTO.resolve(simulated=False) is Mode.OBSERVE
    assert ActionMode.RECOMMEND.resolve(simulated=True) is Mode.RECOMMEND


def test_the_configuration_survives_json_unchanged() -> None:
    config = load_config(None, {"RAILWATCH_SAMPLING__RING": "90s", "RAILWATCH_STORE__SPOOL_MAX": "5MiB"})
    assert Config.model_validate_json(config.model_dump_json()) == config


@pytest.mark.parametrize(("given", "expected_hz"), [("auto", None), (500, 500.0), ("250", 250.0)])
def test_the_rate_of_rails_is_a_number_or_auto(given: str | int, expected_hz: float | None) -> None:
    config = Config.model_validate({"sources": {"hwmon_hz": given}})
    assert config.sources.hwmon_hz == expected_hz
    assert Config.model_validate_json(config.model_dump_json()) == config


def test_two_pdus_of_one_name_would_share_their_rows_and_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "conf.yaml"
    path.write_text("sources:\n  pdus:\n    - {name: a, host: one}\n    - {name: a, host: two}\n")
    with pytest.raises(
        ConfigError, match=r"sources\.pdus: duplicate name 'a'; expected a name of its own for each PDU"
    ):
        load_config(path, {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sources: {bmc: {address: 'https://bmc17/redfish'}}", "got 'https://bmc17/redfish'; expected a host name"),
        ("sources: {bmc: {address: 'bmc17:623'}}", "got 'bmc17:623'; expected a host name"),
        ("sources: {pdus: [{name: a, host: 'http://a'}]}", "expected a host name or an address"),
        ("sources: {bmc: {password_env: 'has space'}}", "expected the name of an environment variable"),
        ("sources: {upsd: [{host: a}, {host: a}]}", "sources.upsd: duplicate server a:3493; expected each server once"),
        ("sources: {readings: {socket: here.sock}}", "got 'here.sock'; expected an absolute path"),
        (f"sources: {{readings: {{socket: /{'a' * 100}.sock}}}}", "may have 107 bytes"),
        ("sources: {readings: {tcp_port: 0}}", "got 0; expected at least 1"),
        (
            "sources: {readings: {tcp_port: 8470}}",
            "tcp_port: got 8470; expected another port: page.port uses",
        ),
        (
            "sources: {pdus: [{name: a, host: a, oids: [{part: a, signal: mains_power_w, oid: abc}]}]}",
            "'abc'; expected an",
        ),
        ("sources: {pdus: {name: a}}", "sources.pdus: got a mapping; expected a list"),
        ("recorder: {memory_max: 1KiB}", "recorder.memory_max: got '1KiB'; expected at least 1MiB"),
        ("recorder: on", "got true (also written on or yes); expected a mapping of keys to values"),
        ("recorder:", "recorder: got nothing; expected a mapping of keys to values"),
    ],
)
def test_what_could_not_work_is_reported_with_the_keys_of_the_file(tmp_path: Path, text: str, expected: str) -> None:
    (found,) = problems(text, tmp_path)
    assert expected in found


@pytest.mark.parametrize("address", ["bmc17", "bmc-17.rack.example", "10.0.0.17", "fe80::1%eth0", "2001:db8::7"])
def test_a_host_may_be_a_name_or_an_address_of_either_kind(address: str) -> None:
    assert Config.model_validate({"sources": {"bmc": {"address": address}}}).sources.bmc.address == address


def test_the_limits_of_actions_are_still_read_under_their_earlier_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "railwatch.yaml"
    path.write_text("rails: {actions_per_hour: 3, spacing: 2m}\n")
    config = load_config(path, {"RAILWATCH_RAILS__SPACING": "3m"})
    assert (config.limits.actions_per_hour, config.limits.spacing) == (3, 180.0)
    assert caplog.messages == [f"{path}: section rails is deprecated; rename it to limits"]
    path.write_text("\nrails: {actions_per_hour: 0}\n")
    with pytest.raises(ConfigError, match=r"railwatch.yaml:2: limits.actions_per_hour: got 0"):
        load_config(path, {})


def test_a_removed_key_is_read_for_one_more_release_with_one_line_that_names_its_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "railwatch.yaml"
    path.write_text("detectors:\n  supply_headroom:\n    sized_ratio: 1.9\n    rated_w: 1100\n")
    environ = {"RAILWATCH_DETECTORS__SUPPLY_HEADROOM__SIZED_RATIO": "1.8"}
    assert load_config(path, environ).detectors.supply_headroom.rated_w == 1100.0
    of_file, of_variable = caplog.messages
    assert of_file.startswith(f"{path}:3: key detectors.supply_headroom.sized_ratio is removed and ignored: ratings ")
    assert of_variable.startswith("RAILWATCH_DETECTORS__SUPPLY_HEADROOM__SIZED_RATIO: key detectors.supply_headroom.")
    assert "sized_ratio" not in sample_yaml()


def test_a_section_of_another_form_around_a_removed_key_is_still_refused(tmp_path: Path) -> None:
    (problem,) = problems("detectors: {supply_headroom: 3}\n", tmp_path)
    assert problem.startswith("FILE:1: detectors.supply_headroom: ")


def test_the_limits_of_actions_under_both_names_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "railwatch.yaml"
    path.write_text("limits: {spacing: 2m}\nrails: {spacing: 1m}\n")
    with pytest.raises(ConfigError, match=r"railwatch.yaml:2: rails: both rails and limits; expected only limits"):
        load_config(path, {})


def test_a_section_set_by_its_earlier_and_its_present_variable_is_refused(tmp_path: Path) -> None:
    (problem,) = problems("", tmp_path, RAILWATCH_LIMITS__ACTIONS_PER_HOUR="5", RAILWATCH_RAILS__ACTIONS_PER_HOUR="3")
    assert problem.startswith("RAILWATCH_RAILS__ACTIONS_PER_HOUR: limits.actions_per_hour: ")
    assert problem.endswith("set as RAILWATCH_LIMITS__ACTIONS_PER_HOUR too; expected the present name alone")
