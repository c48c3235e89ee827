"""A PDU sags under a thousand nodes: one incident, actions within budget, the breaker, one page."""

import json
from pathlib import Path

import pytest

from fleet.rehearsal.pdu_sag import PduSag
from railwatch.cli import app as command_line
from telemetry.records import IncidentState


@pytest.fixture
def sag(tmp_path: Path) -> PduSag:
    return PduSag(tmp_path, nodes=80, others=20)


def test_one_incident_at_the_pdu_actions_within_budget_and_one_page(sag: PduSag) -> None:
    published = sag.run()
    (incident,) = published.incidents
    assert incident.entity_id == "supply:feed/pdu-a"
    assert incident.number("nodes") == 80
    # A tenth of 100 nodes may be acted on, one in each of two racks; the breaker trips before the second one is met.
    assert published.budget_nodes == 10
    assert 1 <= len(published.acted_on) == len(set(published.acted_on)) == published.racks_acted_on <= 2
    assert "21 of 100 nodes" in published.breaker
    (page,) = published.pages
    assert "breaker tripped" in page
    assert published.holds


def test_what_it_did_is_in_the_store_with_before_after_who_and_what_came_of_it(
    sag: PduSag, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    write = type(sag.outbox._sender._destination).write

    def noted(own: object, resolution: object, body: bytes) -> object:
        lines.extend(body.decode().splitlines())
        return write(own, resolution, body)  # type: ignore[arg-type]

    monkeypatch.setattr(type(sag.outbox._sender._destination), "write", noted)
    sag.run()
    (node, *_) = sag.agents.acted_on
    acted = [line for line in lines if line.startswith("action,") and f",node={node}," in line]
    assert acted
    assert all(",by=fleet," in line and ",owner=fleet:rehearsal," in line for line in acted)
    assert any("found=1530" in line and "wanted=1005" in line and "read_back=1005" in line for line in acted)
    assert any(line.startswith("outcome,") and "before=80" in line for line in lines)
    assert any(line.startswith("decision,") and ",verdict=refuse" in line for line in lines)
    assert any(line.startswith("event,") and "breaker tripped" in line for line in lines)


def test_the_incident_stays_while_caps_hold_it_down_and_caps_stay_until_a_person_resets_the_breaker(
    sag: PduSag,
) -> None:
    sag.run()
    cases, _ = sag.loop.current() or ((), None)
    assert [case.incident.state for case in cases] == [IncidentState.MITIGATED]
    assert set(sag.agents.capped) == set(sag.agents.acted_on)


def test_the_command_states_it_as_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["railwatch", "fleet", "rehearse", "pdu-sag", "--nodes", "60", "--json"])
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    assert ended.value.code in (0, None)
    published = json.loads(capsys.readouterr().out)
    assert (published["incidents_at_the_pdu"], published["incidents"], published["pages"], published["holds"]) == (
        1,
        1,
        1,
        True,
    )
