import math

from dashboards.page.labels import labels
from dashboards.page.series_tables import PAGE_SIGNALS
from physics.connector_pins import PIN_LIMIT_A
from physics.rail_classes import RAIL_CLASSES
from telemetry.records import ActionState, Cause, EventKind, IncidentState, Mode
from telemetry.signals import signal


def test_everything_a_record_can_name_has_a_label() -> None:
    known = labels()
    assert set(known.causes) == {str(item) for item in Cause}
    assert set(known.modes) == {str(item) for item in Mode}
    assert set(known.incident_states) == {str(item) for item in IncidentState}
    assert set(known.action_states) == {str(item) for item in ActionState}
    assert set(known.events) == {str(item) for item in EventKind}


def test_titles_of_causes_are_the_names_that_the_command_line_prints() -> None:
    titles = {cause: title.lower() for cause, (title, _) in labels().causes.items()}
    assert titles == {cause: cause.replace("_", " ") for cause in titles}


def test_ratios_of_a_baseline_are_multiples_and_shares_are_not() -> None:
    known = labels().multiples
    assert "rise_ratio" in known
    assert "gpu_util_ratio" not in known


def test_the_page_asks_only_for_signals_of_the_catalogue() -> None:
    for kind, names in PAGE_SIGNALS.items():
        for name in names:
            assert signal(kind, name).name == name


def test_every_class_of_rails_has_its_limit_over_that_of_12_v_and_mains_has_none() -> None:
    scales = {one.nominal_v: one.limit_scale for one in labels().rail_classes}
    assert set(scales) == {one.nominal_v for one in RAIL_CLASSES}
    assert scales[12.0] == 1.0
    for one in RAIL_CLASSES:
        scale = scales[one.nominal_v]
        assert (scale is None) == math.isnan(one.lowest_ratio)
        assert scale is None or math.isclose(scale * 11.4, one.lowest_v)


def test_the_page_marks_a_pin_above_the_current_that_the_detector_allows() -> None:
    assert labels().pin_limit_a == PIN_LIMIT_A
