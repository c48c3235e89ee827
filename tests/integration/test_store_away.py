"""Server that dies in the middle of a run and returns: nothing is lost, nothing is stored twice."""

from pathlib import Path

import pytest

from tests.integration.kept import RingWatch
from tests.integration.running import Fields, Node, node_up, quick_sag
from tests.integration.test_stores import counts_in_influx, records_in_influx
from tests.servers import Server, influxd
from tests.services import free_port

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
SPOOL_MAX_BYTES = 8 << 20


def store_of(node: Node) -> Fields:
    found: Fields = node.api("status")["store"]
    return found


def until_state(node: Node, state: str) -> Fields:
    found: Fields = node.until(
        lambda: status if (status := store_of(node))["state"] == state else None,
        what=f"store {state}",
    )
    return found


def until_all_is_sent(node: Node) -> None:
    node.until(lambda: (store_of(node)["behind_s"] or 0.0) < 2.0, what="nothing old waits")


def has_no_hole(server: Server, watch: RingWatch) -> bool:
    """Return True if the server has all of a fast signal up to some time, and nothing beyond."""
    for series in server.query("SELECT voltage_v FROM raw.supply GROUP BY entity", db="railwatch"):
        stamps = [row[0] for row in series["values"]]
        kept = watch.kept().updates["supply", series["tags"]["entity"], "voltage_v"]
        if stamps != [time_ns for time_ns in sorted(kept) if time_ns <= stamps[-1]]:
            return False
    return True


def test_what_was_sampled_while_the_server_was_away_arrives_later_in_order_and_once(tmp_path: Path) -> None:
    home, port = tmp_path / "influx", free_port()
    config = tmp_path / "railwatch.yaml"
    config.write_text(f"store:\n  kind: influxdb1\n  url: http://127.0.0.1:{port}\n  spool_max: 8MiB\n")
    with node_up(tmp_path / "data", "--config", str(config), *quick_sag(tmp_path)) as node:
        with influxd(directory=home, port=port):
            until_state(node, "sending")
            node.until(lambda: store_of(node)["sent_points"] > 0, what="points are sent")
        watch = RingWatch(node.context)
        away = until_state(node, "away")
        assert away["detail"]
        # The cap comes, and is seen, without any store.
        node.line(type="action", state="applied")
        grown = node.until(
            lambda: status if (status := store_of(node))["spool_bytes"] > away["spool_bytes"] + 20_000 else None,
            what="the spool grows",
        )
        assert grown["spool_bytes"] <= grown["spool_limit_bytes"] == SPOOL_MAX_BYTES
        node.until(lambda: (store_of(node)["behind_s"] or 0.0) > 1.0, what="the page says how far the store is behind")
        node.until(lambda: node.api("status")["sampler"]["age_s"] < 1.0, what="sampling goes on")
        with influxd(directory=home, port=port) as server:
            until_state(node, "sending")
            assert has_no_hole(server, watch)
            until_all_is_sent(node)
            assert has_no_hole(server, watch)
            assert node.end() == 0, node.story()
            kept = watch.kept()
            found = counts_in_influx(server)
            assert {point: found.get(point) for point in kept.counts} == kept.counts
            assert len(records_in_influx(server, "action")) == len(node.of(type="action"))
            assert node.lines[-1]["caps_left"] == 0


@pytest.mark.soak
def test_what_a_run_could_not_send_is_sent_by_the_next_one(tmp_path: Path) -> None:
    home, port = tmp_path / "influx", free_port()
    config = tmp_path / "railwatch.yaml"
    config.write_text(f"store:\n  kind: influxdb1\n  url: http://127.0.0.1:{port}\n")
    options = ("--config", str(config), "--simulate", "v100x4", "--for")
    with node_up(tmp_path / "data", *options, "4s") as node:
        until_state(node, "away")
        watch = RingWatch(node.context)
        assert node.wait() == 0, node.story()
    with influxd(directory=home, port=port) as server, node_up(tmp_path / "data", *options, "3s") as node:
        assert node.wait() == 0, node.story()
        kept = watch.kept().updates["supply", "psu0", "voltage_v"]
        (series,) = server.query("SELECT voltage_v FROM raw.supply WHERE \"name\" = 'psu0'", db="railwatch")
        stamps = [row[0] for row in series["values"]]
        assert stamps[: len(kept)] == sorted(kept)
