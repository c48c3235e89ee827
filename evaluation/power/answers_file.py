"""Answers of any judge, read from a CSV file: ``case,time_s,entity,kind,score``, as docs/benchmark.md describes it.

Each case of a track that is answered has a line at least; one without a time states that nothing was found.
"""

import csv
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from evaluation.power.answers import Answers
from evaluation.power.cases import Case
from evaluation.power.plan import AnswerKind, Track
from evaluation.power.recordings import entities_of
from telemetry.clock import NS_PER_S
from telemetry.errors import ConfigError, Problem

COLUMNS = ("case", "time_s", "entity", "kind", "score")
_REQUIRED = COLUMNS[:2]
_MOST_PROBLEMS = 20  # heuristic: what a person reads at once; the rest has the same cause
_ALWAYS = math.inf  # score of an answer without one


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenAnswers:
    """Answers of one judge by case, for the tracks that it answered."""

    name: str
    tracks: frozenset[Track]
    cases: tuple[Case, ...]
    by_case: Mapping[str, tuple[Answers, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    case: Case
    entity: str
    kind: AnswerKind
    time_ns: int
    score: float


class _LineError(ValueError):
    """What is wrong in a column of a line."""

    def __init__(self, column: str, found: str, expected: str) -> None:
        super().__init__(found)
        self.column, self.found, self.expected = column, found, expected


def read_answers(path: Path, cases: Sequence[Case]) -> GivenAnswers:
    """Return the answers of a file; ConfigError with every problem, by file, line and column."""
    by_id = {case.id: case for case in cases}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, restkey="", restval="")
            _check_head(path, reader.fieldnames or ())
            lines, answered, problems = _read(path, reader, by_id)
    except (OSError, UnicodeDecodeError, csv.Error) as err:
        raise ConfigError.at(path, f"cannot be read: {err}", "a CSV file in UTF-8") from err
    if not problems:
        problems = [*_without_line(path, cases, answered), *_half_scored(path, lines)]
    if problems:
        raise ConfigError(list(islice(problems, _MOST_PROBLEMS)))
    return GivenAnswers(
        name=path.stem,
        tracks=frozenset(by_id[one].chain.track for one in answered),
        cases=tuple(case for case in cases if case.id in answered),
        by_case=_grouped(lines),
    )


def _check_head(path: Path, head: Sequence[str]) -> None:
    problems = [
        Problem(
            where=str(path), line=1, key=name, found="no such column", expected=f"a header with {', '.join(COLUMNS)}"
        )
        for name in _REQUIRED
        if name not in head
    ]
    problems += [
        Problem(where=str(path), line=1, key=name, found="unknown or repeated column", expected=", ".join(COLUMNS))
        for place, name in enumerate(head)
        if name not in COLUMNS or name in head[:place]
    ]
    if problems:
        raise ConfigError(problems)


def _read(
    path: Path, reader: "csv.DictReader[str]", by_id: Mapping[str, Case]
) -> tuple[list[_Line], set[str], list[Problem]]:
    lines: list[_Line] = []
    answered: set[str] = set()
    problems: list[Problem] = []
    for row in reader:
        try:
            line = _line(row, by_id)
        except _LineError as err:
            where, number = str(path), reader.line_num
            problems.append(Problem(where=where, line=number, key=err.column, found=err.found, expected=err.expected))
            continue
        answered.add(row["case"].strip())
        if line is not None:
            lines.append(line)
    return lines, answered, problems


def _line(row: Mapping[str, str], by_id: Mapping[str, Case]) -> _Line | None:
    """Return the answer in a line, None in a line that reports that nothing was found."""
    if "" in row:
        raise _LineError("", "more cells than columns", "as many as in the first line")
    given = {name: (row.get(name) or "").strip() for name in COLUMNS}
    case = by_id.get(given["case"])
    if case is None:
        raise _LineError(
            "case", f"got {given['case']!r}", "a case of index.csv, written with the same --seeds and data"
        )
    if not given["time_s"]:
        if any(given[name] for name in ("entity", "kind", "score")):
            raise _LineError("time_s", "empty", "seconds from the first row, as entity, kind or score are given")
        return None
    times_ns = case.chain.trace.time_ns
    last_s = math.ceil(float(times_ns[-1] - times_ns[0]) / NS_PER_S)  # files have milliseconds
    time_s = _number(given, "time_s", 0.0, last_s)
    known = ("", *entities_of(case.chain.trace))
    if given["entity"] not in known:
        raise _LineError("entity", f"got {given['entity']!r}", f"empty or one of {', '.join(known[1:])}")
    kinds = [kind.value for kind in AnswerKind]
    if given["kind"] not in kinds:
        raise _LineError("kind", f"got {given['kind']!r}", f"empty or one of {', '.join(filter(None, kinds))}")
    return _Line(
        case=case,
        entity=given["entity"],
        kind=AnswerKind(given["kind"]),
        time_ns=int(times_ns[0]) + round(time_s * NS_PER_S),
        score=_number(given, "score", -math.inf, math.inf) if given["score"] else _ALWAYS,
    )


def _number(given: Mapping[str, str], name: str, low: float, high: float) -> float:
    bounded = math.isfinite(low)
    expected = f"a number from {low:g} to {high:g}, the length of the case" if bounded else "a number"
    try:
        value = float(given[name])
    except ValueError:
        raise _LineError(name, f"got {given[name]!r}", expected) from None
    if not math.isfinite(value) or not low <= value <= high:
        raise _LineError(name, f"got {given[name]!r}", expected)
    return value


def _without_line(path: Path, cases: Sequence[Case], answered: set[str]) -> list[Problem]:
    """Return the tracks that are answered in part: a case that was not judged is no case without alarm."""
    problems = []
    for track in Track:
        own = [case.id for case in cases if case.chain.track is track]
        missing = sorted(set(own) - answered)
        if missing and len(missing) < len(own):
            found = f"no line for {len(missing)} of {len(own)} cases of {track}, such as {missing[0]}"
            expected = "a line for each, with an empty time_s where nothing was found"
            problems.append(Problem(where=str(path), key="case", found=found, expected=expected))
    if not answered:
        problems.append(Problem(where=str(path), found="no answers", expected="a line for each case of a track"))
    return problems


def _half_scored(path: Path, lines: Sequence[_Line]) -> list[Problem]:
    """Return the tracks in which only some answers have a score: no threshold is fair to both kinds."""
    problems = []
    for track in Track:
        scores = [line.score == _ALWAYS for line in lines if line.case.chain.track is track]
        if any(scores) and not all(scores):
            found = f"{sum(scores)} of {len(scores)} answers of {track} have no score"
            problems.append(
                Problem(where=str(path), key="score", found=found, expected="one for all of a track, or none")
            )
    return problems


def _grouped(lines: Sequence[_Line]) -> dict[str, tuple[Answers, ...]]:
    apart: dict[str, dict[tuple[str, AnswerKind], list[_Line]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        apart[line.case.id][line.entity, line.kind].append(line)
    return {
        case: tuple(
            Answers(
                entity=entity,
                kind=kind,
                time_ns=np.array([line.time_ns for line in sorted(own, key=lambda line: line.time_ns)], dtype=np.int64),
                score=np.array([line.score for line in sorted(own, key=lambda line: line.time_ns)], dtype=np.float64),
            )
            for (entity, kind), own in of_case.items()
        )
        for case, of_case in apart.items()
    }
