import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dashboards.page import history as page_history
from dashboards.page.app import create_app, echarts_dir
from dashboards.page.labels import labels
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.frames import Frame
from telemetry.record_json import from_json
from telemetry.records import ActionState, Incident
from telemetry.signals import signals_of
from tests.dashboards.fakes import GPUS, QUIET, FakeSource, Story, xid_event
from tests.dashboards.page.asgi import Client
from tests.dashboards.page.clocks import START_NS, StandingClock


class Setting:
    """A node 100 s after its start, and a client of its page."""

    def __init__(self, story: Story | None = None, *, echarts: Path | None = None) -> None:
        self.clock = StandingClock(START_NS + 100 * NS_PER_S)
        self.source = FakeSource(clock=self.clock, started_ns=START_NS, story=story or Story())
        app = create_app(self.source, clock=self.clock, version="0.1.0", echarts=echarts)
        self.client = Client(app, base_url="http://127.0.0.1")


@pytest.fixture
def setting() -> Setting:
    return Setting()


def test_status_states_who_where_and_how_far_it_may_go(setting: Setting) -> None:
    status = setting.client.get("/api/v1/status").json()
    assert status["node"] == "box-17"
    assert status["simulated"] is True
    assert status["modes"][0] == {"action": "clock_cap", "mode": "enforce"}
    assert status["sampler"]["age_s"] == 0
    assert status["rail_limit_v"] == 11.4


def test_health_turns_unknown_when_samples_stop_coming() -> None:
    setting = Setting(Story(silent_s=90))
    reply = setting.client.get("/api/v1/health").json()
    assert reply == {
        "health": "unknown",
        "reason": "no new samples for 10 s",
        "last_sample_age_s": 10.0,
        "open_incidents": 1,
    }


def test_entities_name_their_parents_and_signals(setting: Setting) -> None:
    entities = {item["id"]: item for item in setting.client.get("/api/v1/entities").json()}
    assert entities["supply:psu0"]["parents"] == ["node:box-17"]
    assert {"name": "voltage_v", "unit": "V"}.items() <= entities["supply:psu0"]["signals"][0].items()


def test_series_returns_columns_of_what_was_asked(setting: Setting) -> None:
    reply = setting.client.get(
        "/api/v1/series",
        params={"kind": "supply", "signal": "voltage_v", "entity": "supply:psu0", "seconds": 10, "bucket_s": 1},
    ).json()
    (table,) = reply["tables"]
    (series,) = table["series"]
    assert series["entity"] == "supply:psu0"
    assert len(series["values"]) == len(table["time_ms"]) <= 22
    assert 11.4 < min(series["values"]) < 11.6


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"kind": "supply", "signal": "gpu_temp_c"}, "voltage_v"),
        ({"kind": "rocket", "signal": "power_w"}, "gpu"),
        ({"kind": "gpu"}, "signal"),
        ({"kind": "gpu", "signal": "power_w", "seconds": "-1"}, "seconds"),
        ({"kind": "gpu", "signal": "power_w", "seconds": "nan"}, "seconds"),
        ({"kind": "gpu", "signal": "power_w", "bucket_s": "0"}, "bucket_s"),
    ],
)
def test_a_bad_question_is_refused_with_what_was_expected(
    setting: Setting, params: dict[str, str], expected: str
) -> None:
    reply = setting.client.get("/api/v1/series", params=params)
    assert reply.status_code == 422
    assert expected in reply.text


def history(setting: Setting, **params: Any) -> dict[str, Any]:
    reply: dict[str, Any] = setting.client.get("/api/v1/history", params=params).json()
    return reply


def test_history_returns_the_statistics_of_every_step(setting: Setting) -> None:
    reply = history(setting, kind="supply", signal=["voltage_v", "current_a"], seconds=60, step_s=10)
    assert reply["step_s"] == 10
    assert len(reply["time_ms"]) in (6, 7)
    assert all(time_ms % 10_000 == 0 for time_ms in reply["time_ms"])
    assert [(one["entity"], one["signal"], one["unit"]) for one in reply["series"]] == [
        ("supply:psu0", "voltage_v", "V"),
        ("supply:psu0", "current_a", "A"),
        ("supply:psu1", "voltage_v", "V"),
        ("supply:psu1", "current_a", "A"),
    ]
    volts = reply["series"][0]["statistics"]
    assert volts.keys() == {"mean", "min", "max"}
    rows = [*zip(volts["min"], volts["mean"], volts["max"], strict=True)]
    assert len(rows) == len(reply["time_ms"])
    assert all(low <= mean <= high for low, mean, high in rows)
    assert min(volts["min"]) < 11.6 < volts["max"][0]


def test_history_of_flags_and_counters_has_what_a_rollup_keeps_of_them(setting: Setting) -> None:
    reply = history(setting, kind="gpu", signal=["throttle_reasons", "energy_j"], seconds=5)
    found = {one["signal"]: set(one["statistics"]) for one in reply["series"]}
    assert found == {"throttle_reasons": {"last", "any"}, "energy_j": {"last"}}


def test_long_ranges_are_read_in_long_steps_and_never_at_full_rate(setting: Setting) -> None:
    for seconds, step_s in ((600, 1), (3600, 5), (86_400, 120), (30 * 86_400, 3600), (365 * 86_400, 43_200)):
        assert history(setting, kind="supply", signal="voltage_v", seconds=seconds)["step_s"] == step_s
        assert setting.source.series_reads.pop() == (
            EntityKind.SUPPLY, ("voltage_v",), seconds * NS_PER_S, step_s * NS_PER_S
        )  # fmt: skip


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"kind": "supply", "signal": "gpu_temp_c"}, "voltage_v"),
        ({"kind": "supply", "signal": "voltage_v", "seconds": "1e9"}, "seconds"),
        ({"kind": "supply", "signal": "voltage_v", "step_s": "0"}, "step_s"),
        ({"kind": "supply", "signal": "voltage_v", "seconds": "86400", "step_s": "1"}, "expected 30 s or more"),
        ({"kind": "gpu", "signal": "power_w", "seconds": "604800", "step_s": "121"}, "got 121; expected one of 1, 5"),
        ({"kind": "gpu", "signal": "power_w", "seconds": "17995000", "step_s": "3599"}, "expected one of"),
        (
            {
                "kind": "gpu",
                "signal": [item.name for item in signals_of(EntityKind.GPU)][:30],
                "seconds": "5000",
                "step_s": "1",
            },
            "got 30 over 5000 steps; expected 10 or fewer",
        ),
    ],
)
def test_a_history_that_cannot_be_answered_is_refused(setting: Setting, params: dict[str, Any], expected: str) -> None:
    reply = setting.client.get("/api/v1/history", params=params)
    assert reply.status_code == 422
    assert expected in reply.text


def test_a_signal_that_is_requested_many_times_is_read_once(setting: Setting) -> None:
    reply = history(setting, kind="gpu", signal=["power_w", "gpu_temp_c"] + 3000 * ["power_w"], seconds=60)
    assert setting.source.series_reads.pop()[1] == ("power_w", "gpu_temp_c")
    assert len(reply["series"]) == 2 * len({one["entity"] for one in reply["series"]})


def test_histories_are_read_one_at_a_time_and_one_that_waits_too_long_is_refused(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second request comes while the first is in its source."""
    monkeypatch.setattr(page_history, "TURN_S", 0.05)
    inside = setting.source.series
    second: list[Any] = []

    def series(*args: Any, **kwargs: Any) -> Frame:
        if not second:
            second.append(None)
            other = threading.Thread(target=lambda: second.append(request()))
            other.start()
            other.join(10.0)
        return inside(*args, **kwargs)

    def request() -> Any:
        return setting.client.get("/api/v1/history", params={"kind": "gpu", "signal": "power_w", "seconds": "60"})

    monkeypatch.setattr(setting.source, "series", series)
    assert request().status_code == 200
    assert second[1].status_code == 503
    assert "other reads of history" in second[1].text
    assert request().status_code == 200


def test_incidents_read_back_as_records(setting: Setting) -> None:
    (incident,) = setting.client.get("/api/v1/incidents").json()
    assert incident["time"].endswith("Z")
    del incident["findings"][0]["evidence"][-1]  # the number that is not a number is null on the wire
    assert isinstance(from_json(incident), Incident)
    assert setting.client.get("/api/v1/incidents", params={"state": "closed"}).json() == []


def test_an_incident_comes_with_all_that_followed(setting: Setting) -> None:
    story = setting.client.get("/api/v1/incidents/i-1").json()
    assert story["decisions"][0]["clock_mhz"] == 1057
    assert len(story["actions"]) == 4
    assert story["outcomes"][0]["helped"] is True
    assert setting.client.get("/api/v1/incidents/i-2").status_code == 404


def test_actions_are_narrowed_to_those_in_force() -> None:
    client = Setting(Story(release_s=90)).client
    assert client.get("/api/v1/actions", params={"in_force": "true"}).json() == []
    released = client.get("/api/v1/actions", params={"in_force": "false", "limit": 2}).json()
    assert [action["state"] for action in released] == ["released", "released"]


def test_a_cap_whose_lease_ended_is_in_force_since_it_stays_set(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = setting.source.records()
    ended = replace(records, actions=tuple(replace(action, state=ActionState.EXPIRED) for action in records.actions))
    monkeypatch.setattr(setting.source, "records", lambda: ended)
    assert len(setting.client.get("/api/v1/actions", params={"in_force": "true"}).json()) == 4
    assert "expired" in labels().in_force


def test_events_are_listed(setting: Setting) -> None:
    setting.source.extra_events.append(xid_event(START_NS))
    (event,) = setting.client.get("/api/v1/events").json()
    assert (event["kind"], event["code"]) == ("xid", 79)


def test_a_wiring_that_is_not_described_is_inferred_and_lists_what_is_unknown(setting: Setting) -> None:
    wiring = setting.client.get("/api/v1/wiring").json()
    assert wiring["origin"] == "inferred"
    assert wiring["origin_text"].startswith("inferred from nominal voltages")
    assert [supply["entities"] for supply in wiring["supplies"]] == [["supply:psu0"], ["supply:psu1"]]
    (bus,) = wiring["buses"]
    assert (bus["name"], bus["nominal_v"], bus["supplies"]) == ("12 V", 12.0, ["psu0", "psu1"])
    assert bus["branches"][0]["gpus"] == [gpu.id for gpu in GPUS]
    assert wiring["unknown"] == ["rating of PSUs 0-1", "feeds, breakers, plugs and redundancy"]


def test_a_source_that_cannot_answer_now_is_a_503_with_its_reason(setting: Setting) -> None:
    setting.source.failing = True
    reply = setting.client.get("/api/v1/status")
    assert reply.status_code == 503
    assert reply.json() == {"detail": "the ring of the sampler is not there"}


def test_the_description_covers_every_path_and_loads_nothing_from_elsewhere(setting: Setting) -> None:
    described = setting.client.get("/api/v1/openapi.json").json()
    names = (
        "status",
        "health",
        "entities",
        "wiring",
        "series",
        "history",
        "incidents",
        "incidents/{incident_id}",
        "actions",
        "approvals",
        "events",
        "live",
    )
    assert set(described["paths"]) == {f"/api/v1/{name}" for name in names}
    assert {"IncidentRecord", "ActionRecord", "Finding", "Evidence", "NodeStatus", "WiringMap"} <= set(
        described["components"]["schemas"]
    )
    assert setting.client.get("/docs").status_code == 404


def test_the_page_and_all_it_names_are_served_from_here() -> None:
    client = Setting(QUIET, echarts=echarts_dir()).client
    page = client.get("/")
    assert page.status_code == 200
    assert "http" not in page.text.replace("http://www.w3.org/2000/svg", "")
    for name in ("page.css", "main.js", "charts.js", "echarts/index.js"):
        reply = client.get(f"/static/{name}")
        assert reply.status_code == 200, name
        assert reply.headers["cache-control"] == "no-cache"
    assert "javascript" in client.get("/static/main.js").headers["content-type"]


def test_without_the_echarts_build_the_rest_is_still_served() -> None:
    client = Setting(QUIET).client
    assert client.get("/static/echarts/index.js").status_code == 404
    assert client.get("/").status_code == 200


def test_the_static_folder_returns_nothing_outside_itself(setting: Setting) -> None:
    assert setting.client.get("/static/%2e%2e/source.py").status_code == 404
