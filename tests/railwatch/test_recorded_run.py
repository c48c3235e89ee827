"""The part of a run's configuration that a recording contains, and the part that it leaves out."""

import json
from pathlib import Path

from config.models import Config
from config.topology import TopologySection
from railwatch.recorded_run import run_meta
from railwatch.run_context import DriverKind, RunContext

SECRETS = {
    "data_dir": "/home/secret/state",
    "node": {"name": "box"},
    "store": {"kind": "influxdb2", "url": "http://secret:8086", "token": "secret"},
    "page": {"token": "secret-secret-secret"},
    "rules": {"dirs": ["/home/secret/rules"]},
    "sources": {
        "bmc": {
            "kind": "redfish",
            "address": "secret.example",
            "user": "secret",
            "password_env": "SECRET",
            "password_file": "/secret",
            "ca_file": "/secret",
        },
        "pdus": [
            {
                "name": "rack7",
                "host": "secret.example",
                "version": "3",
                "user": "secret",
                "authentication_env": "SECRET",
                "oids": [{"part": "inlet", "signal": "mains_power_w", "oid": "1.3.6.1", "factor": 0.1}],
            }
        ],
        "upsd": [{"host": "secret.example", "port": 3494}],
        "readings": {"group": "secret", "socket": "/run/secret.sock"},
    },
    "actuators": {
        "hooks": {"bell": {"command": ["/opt/secret"], "environment": {"TOKEN": "secret"}}},
        "kubernetes": {"kubeconfig": "/home/secret/kubeconfig", "context": "secret"},
        "notification": {
            "routes": {
                "log": {"kind": "webhook", "url": "https://secret.example/x", "token_env": "SECRET"},
                "oncall": {"kind": "apprise", "url_file": "/etc/secret", "causes": ["gpu_lost"]},
            }
        },
        "power_cycle": {"address": "secret.example", "user": "secret", "password_env": "SECRET"},
    },
}


def meta_text(config: Config, run_dir: Path) -> str:
    context = RunContext(
        run_dir=run_dir, config_json=config.model_dump_json(), driver=DriverKind.NONE, source="none", simulated=False
    )
    return json.dumps(dict(run_meta(context).config))


def test_no_address_user_folder_or_secret_of_the_configuration_stands_in_a_recording(tmp_path: Path) -> None:
    assert "secret" not in meta_text(Config.model_validate(SECRETS), tmp_path).lower()


def test_what_explains_the_samples_does(tmp_path: Path) -> None:
    config = json.loads(meta_text(Config.model_validate(SECRETS), tmp_path))
    assert config["node"]["name"] == "box"
    assert config["sampling"]["fast_hz"] == "auto"
    assert config["recorder"]["before"] == "1m"
    assert config["actions"]["clock_cap"] == "auto"
    assert config["detectors"] == json.loads(Config().model_dump_json())["detectors"]
    (pdu,) = config["sources"]["pdus"]
    assert (pdu["name"], pdu["version"]) == ("rack7", "3")
    assert pdu["oids"] == [{"part": "inlet", "signal": "mains_power_w", "oid": "1.3.6.1", "factor": 0.1}]
    assert config["sources"]["bmc"]["kind"] == "redfish"
    assert config["sources"]["upsd"] == [{"port": 3494, "timeout": "2s"}]


def test_the_described_wiring_is_in_a_recording_so_that_it_can_be_drawn_from_it(tmp_path: Path) -> None:
    described = {
        "supplies": [{"name": "psu0", "plugs": [{"plug": "XT60", "count": 2}]}],
        "buses": [{"name": "main", "supplies": ["psu0"], "branches": [{"gpus": ["0"]}]}],
    }
    config = Config.model_validate({"topology": described})
    kept = json.loads(meta_text(config, tmp_path))["topology"]
    assert TopologySection.model_validate(kept) == config.topology
    assert json.loads(meta_text(Config(), tmp_path))["topology"] == {}
