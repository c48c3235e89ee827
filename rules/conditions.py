"""Conditions of policies: CEL expressions over one incident, checked when they are loaded.

CEL (https://cel.dev) has no loops, no input and no output, and its regular expressions are linear, so a condition from
a file can at worst be wrong, never slow or harmful.
"""

import importlib.machinery
import importlib.util
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from telemetry.entities import EntityKind
from telemetry.records import Cause, FindingStatus, Incident, IncidentState, Severity

LENGTH_MAX = 1000

# What a condition may ask of an incident, and what it is told; the reference of policies is written from this.
FACTS: dict[str, str] = {
    "cause": "text: one of " + ", ".join(cause.value for cause in Cause),
    "severity": "text: " + ", ".join(severity.value for severity in Severity),
    "severity_rank": "0 for info, 1 for warning, 2 for critical",
    "state": "text: " + ", ".join(state.value for state in IncidentState),
    "entity_kind": "text: " + ", ".join(kind.value for kind in EntityKind),
    "entity_id": "text: kind and key, such as supply:psu0",
    "affected_count": "how many entities have a finding in it",
    "impact_gpu_hours": "expected loss if nothing is done",
    "score": "0 to 1: how far beyond its limit the worst finding lies",
    "numbers": "the newest value of every piece of evidence by name, such as numbers.minimum_v",
}

# Any incident will do to find a function that does not exist or an answer that is no truth value.
_PROBE: dict[str, Any] = {
    "cause": Cause.SUPPLY_SAG.value,
    "severity": Severity.WARNING.value,
    "severity_rank": 1,
    "state": IncidentState.OPEN.value,
    "entity_kind": EntityKind.SUPPLY.value,
    "entity_id": "supply:psu0",
    "affected_count": 1,
    "impact_gpu_hours": 0.0,
    "score": 0.0,
    "numbers": {},
}
_ABSENT = "the condition needs"
_SYNTAX_ERROR = re.compile(r"<input>:\d+:(\d+): Syntax error: (.*?)(?: expecting \{.*)?(?:\n|$)")
_STRINGS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_FACT_ASKED = re.compile(r"\bincident\s*\.\s*([A-Za-z_]\w*)")
_MACRO_NAMES = re.compile(r"\.\s*(?:all|exists|exists_one|map|filter)\s*\(\s*([A-Za-z_]\w*)\s*,")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a condition says of an incident. `doubt` says in words why it could not be judged; it is then not met."""

    met: bool
    doubt: str | None = None


NOT_MET = Judgement(met=False)


@dataclass(frozen=True, slots=True)
class Condition:
    """A checked expression."""

    source: str
    program: Any

    def judge(self, facts: Mapping[str, Any]) -> Judgement:
        """Judge what `facts_of` gave. Evidence that is absent is not met, and said; about 20 us a call."""
        try:
            answer = self.program.execute({"incident": dict(facts)})
        except KeyError as err:
            return Judgement(met=False, doubt=f"{_ABSENT} {err.args[0]}, which the incident does not carry")
        except (TypeError, RuntimeError, ValueError, ArithmeticError) as err:
            return Judgement(met=False, doubt=f"the condition cannot be judged: {_one_line(err)}")
        if not isinstance(answer, bool):
            return Judgement(met=False, doubt=f"the condition gives {answer!r}, not true or false")
        return Judgement(met=answer)


def compile_condition(source: str) -> Condition:
    """Compile and check an expression.

    Raises
    ------
    ValueError
        It is not CEL, is too long, or asks for something that incidents do not have; the message says what is right.
    """
    if len(source) > LENGTH_MAX:
        raise ValueError(f"an expression of at most {LENGTH_MAX} characters")
    try:
        program = _cel().compile(source)
    except ValueError as err:
        raise ValueError(f"a CEL expression ({_one_line(err)})") from err
    bare = _STRINGS.sub("''", source)
    strangers = set(program.variables()) - {"incident"} - set(_MACRO_NAMES.findall(bare))
    if strangers:
        raise ValueError(f"an expression over 'incident' alone, without {', '.join(sorted(strangers))}")
    unknown = [name for name in _FACT_ASKED.findall(bare) if name not in FACTS]
    if unknown:
        raise ValueError(f"only {', '.join(FACTS)} after 'incident.', not {', '.join(unknown)}")
    condition = Condition(source, program)
    wrong = condition.judge(_PROBE).doubt
    if wrong is not None and not wrong.startswith(_ABSENT):
        raise ValueError(f"an expression that gives true or false ({wrong})")
    return condition


def facts_of(incident: Incident) -> dict[str, Any]:
    """Give what a condition may ask of this incident."""
    numbers: dict[str, float] = {}
    live = [finding for finding in incident.findings if finding.status is not FindingStatus.CLEARED]
    for finding in sorted(incident.findings, key=lambda item: item.time_ns):
        numbers.update({item.name: item.value for item in finding.evidence})
    return {
        "cause": incident.cause.value,
        "severity": incident.severity.value,
        "severity_rank": incident.severity.rank,
        "state": incident.state.value,
        "entity_kind": incident.entity_id.partition(":")[0],
        "entity_id": incident.entity_id,
        "affected_count": len(incident.affected),
        "impact_gpu_hours": incident.impact_gpu_hours,
        "score": max((finding.score for finding in live), default=0.0),
        "numbers": numbers,
    }


def _cel() -> ModuleType:
    """Give the engine alone: its package imports a terminal program, which costs 280 ms and 23 MiB instead of 2."""
    name = "cel.cel"
    if name in sys.modules:
        return sys.modules[name]
    package = importlib.util.find_spec("cel")
    folders = () if package is None else tuple(package.submodule_search_locations or ())
    for folder in folders:
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            path = Path(folder, f"cel{suffix}")
            spec = importlib.util.spec_from_file_location(name, path) if path.exists() else None
            if spec is not None and spec.loader is not None:
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                sys.modules[name] = module
                return module
    return importlib.import_module("cel")  # another layout of the package: whole, and slower


def _one_line(err: Exception) -> str:
    """Give the first thing that the engine complains of, without its drawing of the place."""
    syntax = _SYNTAX_ERROR.search(str(err))
    text = f"column {syntax[1]}: {syntax[2]}" if syntax else str(err).partition("\n")[0]
    return text if len(text) <= 160 else text[:157] + "..."
