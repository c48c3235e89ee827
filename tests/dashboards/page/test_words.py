from dashboards.page.columns import PAGE_SIGNALS
from dashboards.page.words import words
from telemetry.records import ActionState, Cause, EventKind, IncidentState, Mode
from telemetry.signals import signal


def test_everything_a_record_can_name_has_plain_words() -> None:
    said = words()
    assert set(said.causes) == {str(item) for item in Cause}
    assert set(said.modes) == {str(item) for item in Mode}
    assert set(said.incident_states) == {str(item) for item in IncidentState}
    assert set(said.action_states) == {str(item) for item in ActionState}
    assert set(said.events) == {str(item) for item in EventKind}


def test_the_page_asks_only_for_signals_of_the_catalogue() -> None:
    for kind, names in PAGE_SIGNALS.items():
        for name in names:
            assert signal(kind, name).name == name
