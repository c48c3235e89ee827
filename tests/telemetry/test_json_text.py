"""No NaN and no infinity in anything that is written as JSON."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.detectors.condition import Changes, Conditions
from analytics.detectors.statements import Statement, evidence, findings_from
from telemetry.entities import EntityKind
from telemetry.frames import filled
from telemetry.json_text import finite, json_bytes, json_text
from telemetry.record_json import from_json, to_json
from telemetry.records import Cause, Evidence, FaultClass, FindingStatus, Hypothesis, Severity
from tests.analytics.scenes import gpu
from tests.record_samples import FINDING, INCIDENT

# Writes JSON of its own: the one module that may, and the text of a program that a process of its own runs.
ALLOWED = {"telemetry/json_text.py", "railwatch/wiring/gpu_probe.py"}
PACKAGES = (
    "railwatch", "evaluation", "fleet", "config", "agent", "simulator", "dashboards", "rules", "analytics", "physics",
    "telemetry",
)  # fmt: skip
_WRITER = re.compile(r"\bjson\.dumps?\b|from json import|import json as|JSONEncoder|\borjson\b|JSONResponse\(record")
numbers = st.floats(width=64) | st.integers() | st.text(max_size=5) | st.none() | st.booleans()
values = st.recursive(
    numbers,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4) | st.floats(), inner, max_size=4),
    max_leaves=20,
)


def strict(text: str | bytes) -> Any:
    def refused(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refused)


@given(values)
def test_every_text_is_json_and_finite_numbers_stay(value: Any) -> None:
    assert strict(json_text(value)) == strict(json_text(finite(value)))
    assert strict(json_bytes(value)) == strict(json_text(value, indent=1, ascii_only=False))


def test_what_is_not_finite_becomes_null_and_everything_else_stays() -> None:
    value = {"a": [1.5, math.nan, -math.inf, "NaN", None], "b": {"c": math.inf, "d": True}, "e": 3}
    assert strict(json_text(value)) == {"a": [1.5, None, None, "NaN", None], "b": {"c": None, "d": True}, "e": 3}
    assert json_text({"b": 1, "a": "ä"}, sort_keys=True, ascii_only=False) == '{"a":"ä","b":1}'
    with pytest.raises(TypeError):
        json_text({1, 2})


def test_nothing_else_writes_json() -> None:
    root = Path(__file__).parents[2]
    found = [
        f"{path.relative_to(root)}: {match[0]}"
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py"))
        for match in [_WRITER.search(path.read_text(encoding="utf-8"))]
        if match is not None and str(path.relative_to(root)) not in ALLOWED
    ]
    assert found == []


@given(score=st.floats(), value=st.floats(), impact=st.floats(), probability=st.floats())
def test_a_record_with_any_number_is_written_as_json_and_read_again(
    score: float, value: float, impact: float, probability: float
) -> None:
    one = replace(FINDING, score=score, evidence=(Evidence(name="excess_c", value=value, unit="K"),))
    cause = next(iter(FaultClass))
    ranked = Hypothesis(cause=cause, probability=probability, for_=("a",), against=(), would_disprove="")
    incident = replace(INCIDENT, impact_gpu_hours=impact, findings=(one,), hypotheses=(ranked,))
    for record in (one, incident):
        again = from_json(strict(json_text(to_json(record))))
        assert json_text(to_json(again)) == json_text(to_json(record))
        assert type(again) is type(record)


def test_a_finding_that_clears_while_a_value_is_absent_has_a_score() -> None:
    entity = gpu(0)
    conditions = filled(Conditions, 1)
    none = np.empty(0, dtype=np.intp)
    changes = Changes(raised=none, updated=none, cleared=np.array([0]))
    statement = Statement(
        severity=Severity.WARNING,
        score=math.nan,
        summary="airflow back to normal",
        evidence=evidence(("theta_ratio", math.nan, "ratio"), ("power_w", math.inf, "W"), ("seconds", 3.0, "s")),
    )
    (found,) = findings_from(
        "airflow_lost", Cause.AIRFLOW, (entity,), conditions, changes, now_ns=5, describe=lambda *_: statement
    )
    assert entity.kind is EntityKind.GPU
    assert (found.status, found.score) == (FindingStatus.CLEARED, 0.0)
    assert [one.name for one in found.evidence] == ["seconds"]
