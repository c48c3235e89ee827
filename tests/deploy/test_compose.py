import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards.grafana import generated_files

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
PROVISIONING = DEPLOY / "grafana" / "provisioning"


def sample_names() -> set[str]:
    lines = (DEPLOY / "compose.env.sample").read_text(encoding="utf-8").splitlines()
    return {line.partition("=")[0] for line in lines if line and not line.startswith("#")}


def provisioned(name: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((PROVISIONING / name / "railwatch.yaml").read_text(encoding="utf-8"))
    return read


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_every_service_is_pinned_watched_and_on_loopback(name: str) -> None:
    service = COMPOSE["services"][name]
    assert re.fullmatch(r"[a-z/]+:\d+\.\d+\.\d+", service["image"])
    assert {"test", "interval", "timeout", "retries"} <= service["healthcheck"].keys()
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert service["restart"] == "unless-stopped"


def test_data_lives_in_named_volumes_and_every_mounted_folder_exists() -> None:
    for service in COMPOSE["services"].values():
        for volume in service["volumes"]:
            host = volume.partition(":")[0]
            assert host in COMPOSE["volumes"] or (DEPLOY / host).resolve().is_dir(), volume


def test_no_password_is_committed() -> None:
    for service in COMPOSE["services"].values():
        for name, value in service["environment"].items():
            if "PASSWORD" in name:
                assert re.fullmatch(r"\$\{[A-Z_]+:\?[^}]+\}", value), name
    text = (DEPLOY / "compose.env.sample").read_text(encoding="utf-8")
    assert re.findall(r"^\w*PASSWORD=(.+)$", text, flags=re.MULTILINE) == []


def test_the_sample_names_every_setting_that_the_compose_file_asks_for() -> None:
    asked = set(re.findall(r"\$\{([A-Z_]+)", (DEPLOY / "compose.yaml").read_text(encoding="utf-8")))
    assert asked == sample_names()


def test_grafana_gets_the_settings_that_its_data_source_names() -> None:
    source = provisioned("datasources")["datasources"][0]
    named = {source["url"], source["user"], source["secureJsonData"]["password"]}
    assert {name.removeprefix("$") for name in named} <= COMPOSE["services"]["grafana"]["environment"].keys()
    assert source["type"] == "influxdb"
    assert source["jsonData"]["version"] == "InfluxQL"
    assert source["jsonData"]["dbName"] == COMPOSE["services"]["influxdb"]["environment"]["INFLUXDB_DB"]


def test_grafana_finds_the_dashboards_where_they_are_mounted() -> None:
    path = provisioned("dashboards")["providers"][0]["options"]["path"]
    mounts = dict(volume.split(":")[:2] for volume in COMPOSE["services"]["grafana"]["volumes"])
    (folder,) = [host for host, inside in mounts.items() if inside == path]
    wanted = {(ROOT / generated).resolve() for generated in generated_files()}
    assert wanted <= set((DEPLOY / folder).resolve().iterdir())
    home = COMPOSE["services"]["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert Path(home).name in {file.name for file in wanted}


def test_the_policies_are_those_that_dashboards_read() -> None:
    text = (DEPLOY / "influxdb" / "policies.iql").read_text(encoding="utf-8")
    assert re.search(r'CREATE RETENTION POLICY "rollup" ON "railwatch" .* DEFAULT', text)
    assert 'CREATE RETENTION POLICY "raw" ON "railwatch"' in text
