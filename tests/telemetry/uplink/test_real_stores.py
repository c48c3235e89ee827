"""The whole way into real servers and back: encode, spool, send, read with InfluxQL or export."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import urllib3

from telemetry.clock import NS_PER_S, SystemClock
from telemetry.errors import NotPermittedError, TransientError
from telemetry.line_protocol import encode_frame, encode_records, encode_rollups
from telemetry.records import Severity
from telemetry.rollup import Resolution, Rollup
from telemetry.spool.spool import Spool
from telemetry.store.influxql import InfluxQl
from telemetry.uplink.influx_v1 import InfluxV1, InfluxV1Settings
from telemetry.uplink.influx_v2 import InfluxV2, InfluxV2Settings
from telemetry.uplink.port import WriteStatus
from telemetry.uplink.sender import UplinkState
from tests import record_samples
from tests.servers import influxd, victoria_metrics
from tests.services import free_port
from tests.telemetry.frames_for_tests import gpu_spec, sampled
from tests.telemetry.uplink.test_sender import QUICK, sending
from tests.waiting import wait_for

pytestmark = pytest.mark.integration
TAGS = {"node": "box", "simulated": "true"}


def recent_ns() -> int:
    """A whole second a minute ago, for servers keep only what is recent."""
    return (SystemClock().utc_ns() // NS_PER_S - 60) * NS_PER_S


def test_samples_rollups_and_records_come_back_from_influxdb(tmp_path: Path) -> None:
    start_ns = recent_ns()
    frame = sampled(gpu_spec(), 60, start_ns=start_ns)
    rollup = Rollup(frame.spec)
    rolled = [rollup.feed(frame), rollup.flush(start_ns + 10 * NS_PER_S)]
    incident = replace(
        record_samples.INCIDENT,
        time_ns=start_ns,
        opened_ns=start_ns,
        severity=Severity.CRITICAL,
        impact_gpu_hours=2.0,
        summary="12 V fell to 11.2 V",
    )
    spool = Spool(tmp_path / "spool")
    spool.append(Resolution.RAW, encode_frame(frame, tags=TAGS), newest_ns=start_ns)
    spool.append(Resolution.ROLLUP, encode_rollups(rolled, tags=TAGS), newest_ns=start_ns)
    spool.append(Resolution.ROLLUP, encode_records([incident], tags=TAGS), newest_ns=start_ns)
    with influxd(tmp=tmp_path) as server:
        with sending(spool, InfluxV1(InfluxV1Settings(url=server.url))) as sender:
            wait_for(lambda: not spool.status().waiting_points, "all sent")
        assert sender.status().refused_points == 0, sender.status().last_error
        ql = InfluxQl(server.url)
        selected = '"power_w", "throttle_reasons" FROM "railwatch"."raw"."gpu"'
        found = ql.query(f"SELECT {selected} WHERE \"node\" = 'box' GROUP BY *")
        by_entity = {one.tags["entity"]: one for one in found}
        assert by_entity.keys() == {entity.key for entity in frame.spec.entities}
        newest = ql.query('SELECT last("power_w_last") FROM "railwatch"."rollup"."gpu" GROUP BY *')
        last_by_entity = {one.tags["entity"]: one.rows[0][1] for one in newest}
        for place, entity in enumerate(frame.spec.entities):
            own, fresh = by_entity[entity.key], frame.fresh[:, place, [0, 5]]
            assert own.tags["name"] == entity.name
            assert {name: own.tags[name] for name, _ in entity.tags} == dict(entity.tags)
            rows = fresh.any(axis=1)
            assert [row[0] for row in own.rows] == frame.time_ns[rows].tolist()
            wanted = np.where(fresh, frame.values[:, place, [0, 5]], np.nan)[rows]
            np.testing.assert_allclose(np.array([row[1:] for row in own.rows], dtype=np.float64), wanted, atol=1e-9)
            last = rolled[1].signal("power_w_last")[-1][place]
            np.testing.assert_allclose(last_by_entity[entity.key], last, atol=1e-9)
        (series,) = server.query(
            "SELECT title, text, impact_gpu_hours, cause, state, entity, simulated FROM incident", db="railwatch"
        )
        assert series["values"] == [
            [start_ns, "supply_sag open", "12 V fell to 11.2 V", 2.0, "supply_sag", "open", "psu0", "true"]
        ]
        (field_types,) = server.query("SHOW FIELD KEYS FROM raw.gpu", db="railwatch")
        assert {kind for _, kind in field_types["values"]} == {"float"}
        (policies,) = server.query("SHOW RETENTION POLICIES ON railwatch")
        kept = {name: (duration, default) for name, duration, _, _, default in policies["values"]}
        assert kept["raw"] == ("168h0m0s", False)
        assert kept["rollup"] == ("0s", True)
        ql.close()
    spool.close()


def test_a_server_that_comes_back_gets_everything_once(tmp_path: Path) -> None:
    start_ns = recent_ns()
    frame = sampled(gpu_spec(), 400, start_ns=start_ns)
    frame.fresh[:] = ~np.isnan(frame.values)
    spool = Spool(tmp_path / "spool")
    port = free_port()
    home = tmp_path / "influx"

    def put(first: int, stop: int) -> None:
        part = frame.rows(first, stop)
        spool.append(Resolution.RAW, encode_frame(part, tags=TAGS), newest_ns=int(part.time_ns[-1]))

    with sending(spool, InfluxV1(InfluxV1Settings(url=f"http://127.0.0.1:{port}"))) as sender:
        with influxd(directory=home, port=port):
            for first in range(0, 200, 20):
                put(first, first + 20)
            wait_for(lambda: not spool.status().waiting_points, "the first half")
        for first in range(200, 400, 20):
            put(first, first + 20)
        wait_for(lambda: sender.status().state is UplinkState.AWAY, "away")
        with influxd(directory=home, port=port) as server:
            wait_for(lambda: not spool.status().waiting_points, "the second half")
            (series,) = server.query("SELECT count(power_w) FROM raw.gpu", db="railwatch")
            assert series["values"][0][1] == np.count_nonzero(frame.fresh[:, :, 0])
            assert sender.status().sent_points == np.count_nonzero(frame.fresh.any(axis=2))
    spool.close()


def test_influxdb_keeps_the_good_lines_and_the_bad_ones_are_counted(tmp_path: Path) -> None:
    now_ns = recent_ns()
    with influxd(tmp=tmp_path) as server:
        destination = InfluxV1(InfluxV1Settings(url=server.url))
        assert destination.prepare().status is WriteStatus.STORED
        assert destination.prepare().status is WriteStatus.STORED
        good = b"gpu,entity=a power_w=1 %d\n" % now_ns
        assert destination.write(Resolution.RAW, good).status is WriteStatus.STORED
        reply = destination.write(Resolution.RAW, good + b"bad1\n" + b"gpu,entity=a power_w=NaN 5\n")
        assert (reply.status, reply.refused_points) == (WriteStatus.PARTLY, 2)
        reply = destination.write(Resolution.RAW, b'gpu,entity=a power_w="x" %d\n' % now_ns)
        assert (reply.status, reply.refused_points) == (WriteStatus.PARTLY, 1)
        assert "field type conflict" in reply.reason
        reply = destination.write(Resolution.RAW, b"bad1\nbad2\n")
        assert (reply.status, reply.refused_points) == (WriteStatus.BAD_LINES, 2)
        server.query('DROP RETENTION POLICY "raw" ON "railwatch"')
        assert destination.write(Resolution.RAW, good).status is WriteStatus.REFUSED
        server.query('DROP DATABASE "railwatch"')
        assert destination.write(Resolution.RAW, good).status is WriteStatus.REFUSED
        destination.close()


def test_a_database_that_was_dropped_is_made_again_and_nothing_is_lost(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    now_ns = recent_ns()
    with influxd(tmp=tmp_path) as server, sending(spool, InfluxV1(InfluxV1Settings(url=server.url))) as sender:
        wait_for(lambda: bool(server.query("SHOW DATABASES")[0].get("values")), "the database")
        server.query('DROP DATABASE "railwatch"')
        spool.append(Resolution.RAW, b"gpu,entity=a power_w=1 %d\n" % now_ns, newest_ns=now_ns)
        wait_for(lambda: sender.status().sent_points == 1, "sent after all")
        (series,) = server.query("SELECT power_w FROM raw.gpu", db="railwatch")
        assert series["values"] == [[now_ns, 1.0]]
    spool.close()


def test_passwords_and_rights_are_reported_apart(tmp_path: Path) -> None:
    with influxd(tmp=tmp_path, auth=True) as server:
        urllib3.request("POST", f"{server.url}/query", fields={
            "q": "CREATE USER admin WITH PASSWORD 'secret' WITH ALL PRIVILEGES"
        })  # fmt: skip
        admin = InfluxQl(server.url, username="admin", password="secret")
        for statement in (
            'CREATE DATABASE "railwatch"',
            "CREATE USER reader WITH PASSWORD 'r'",
            'GRANT READ ON "railwatch" TO reader',
        ):
            admin.query(statement)
        body = b"gpu,entity=a power_w=1 %d\n" % recent_ns()
        for user, password, prepared, wrote in (
            ("admin", "secret", WriteStatus.STORED, WriteStatus.STORED),
            ("admin", "wrong", WriteStatus.REFUSED, WriteStatus.REFUSED),
            ("reader", "r", WriteStatus.STORED, WriteStatus.REFUSED),
        ):
            destination = InfluxV1(InfluxV1Settings(url=server.url, username=user, password=password))
            assert destination.prepare().status is prepared
            assert destination.write(Resolution.RAW, body).status is wrote
            destination.close()
        with pytest.raises(NotPermittedError):
            InfluxQl(server.url).query("SHOW DATABASES")
        with pytest.raises(TransientError, match="database not found"):
            admin.query("SELECT * FROM nope..gpu")
        admin.close()


def test_a_1x_server_in_place_of_the_v2_api_is_refused_with_a_reason(tmp_path: Path) -> None:
    with influxd(tmp=tmp_path) as server:
        destination = InfluxV2(InfluxV2Settings(url=server.url))
        reply = destination.write(Resolution.RAW, b"gpu power_w=1\n")
        assert reply.status is WriteStatus.REFUSED
        assert "404" in reply.reason
        destination.close()


@pytest.mark.parametrize("password", [None, "p"])
def test_victoriametrics_takes_the_same_lines_through_the_v2_api(tmp_path: Path, password: str | None) -> None:
    start_ns = recent_ns()
    frame = sampled(gpu_spec(), 40, start_ns=start_ns)
    spool = Spool(tmp_path / "spool")
    spool.append(Resolution.RAW, encode_frame(frame, tags=TAGS), newest_ns=start_ns)
    auth = None if password is None else ("u", password)
    with victoria_metrics(tmp=tmp_path, basic_auth=auth) as server:
        token = f"u:{password}"
        settings = InfluxV2Settings(url=server.url, token=token, basic_auth=password is not None)
        with sending(spool, InfluxV2(settings), QUICK) as sender:
            wait_for(lambda: not spool.status().waiting_points, "all sent")
        assert sender.status().refused_points == 0
        expected = int(np.count_nonzero(frame.fresh[:, :, 0]))
        series = server.export("gpu_power_w", samples=expected, auth=None if auth is None else token)
        assert len(series) == 4
        for index, entity in enumerate(frame.spec.entities):
            (own,) = [item for item in series if item["metric"]["entity"] == entity.key]
            fresh = frame.fresh[:, index, 0]
            assert own["values"] == pytest.approx(frame.values[fresh, index, 0].tolist(), abs=1e-9)
            assert own["timestamps"] == (frame.time_ns[fresh] // 1_000_000).tolist()
            assert own["metric"]["simulated"] == "true"
            assert own["metric"]["pci"] == entity.tag("pci")
    spool.close()
