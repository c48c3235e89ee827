"""Feeds of 120 and 206 V, replayed from recordings as a person would: what is named, and what is not."""

import pytest

from telemetry.clock import NS_PER_S
from tests.evaluation.recordings.make import FOLDER, FROM, START_NS, made
from tests.railwatch.command_line import command_line, objects


def replayed(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    """Return the findings of a recording."""
    status, out, _ = command_line(monkeypatch, capsys)("replay", FOLDER / f"{name}.parquet", "--json")
    assert status == 0
    return [one for one in objects(out) if one["type"] == "finding"]


def seconds_of(finding: dict[str, object]) -> float:
    return (int(str(finding["time_ns"])) - START_NS) / NS_PER_S


def test_of_a_pair_of_feeds_of_120_v_the_one_whose_share_fell_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (found,) = replayed("pair-of-120-v", monkeypatch, capsys)
    assert (found["cause"], found["entity_id"]) == ("feed_imbalance", "supply:feed1")
    assert str(found["summary"]).startswith("feed1 (120 V) carries 43")
    assert FROM < seconds_of(found) < FROM + 60


def test_a_feed_at_0_v_is_lost_with_what_the_others_took_over_and_no_meter_is_blamed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = replayed("feed-at-0-v", monkeypatch, capsys)
    assert {(one["cause"], one["entity_id"]) for one in found} == {("supply_lost", "supply:feed2")}
    (raised,) = [one for one in found if one["detector"] == "feed_lost" and one["status"] == "raised"]
    assert "at 0.00 V; the other 3 feeds took over" in str(raised["summary"])
    assert FROM < seconds_of(raised) < FROM + 5


def test_the_recordings_are_what_makes_them() -> None:
    assert {path.stem for path in FOLDER.glob("*.parquet")} == set(made())
