"""Names in a scenario that the node does not have, reported before the rest is checked."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simulator.files.loading import at_key, items_of, resolved
from simulator.files.node import NodeFile
from simulator.files.sensing import SensorFaultKind, check_sensor, check_value
from simulator.files.targets import WHAT, find_target, gpu_names, own_values, supply_names
from simulator.files.workload import load_workload
from telemetry.documents import Lines
from telemetry.durations import format_duration, parse_duration_s
from telemetry.errors import ConfigError, Problem

DURATION_S = 60.0  # of a scenario that says nothing else


def strangers(data: Any, node: NodeFile, *, path: Path, lines: Lines) -> list[Problem]:
    """Return what the data of a scenario name and the node does not have, each at its line.

    The data need not fit the model of a scenario: what has another shape is left to the check of the whole.
    """
    problems = workload_problems(data, path=path, lines=lines)
    for section, check in (("changes", _of_change), ("sensor_faults", _of_sensor_fault), ("driver_faults", _of_call)):
        for index, item in items_of(data, section):
            problems += [
                refusal(path, lines, (section, index, key), found=item[key], expected=expected)
                for key, expected in check(item, node)
            ]
    names = {*gpu_names(node), *supply_names(node), "gpus", "supplies", "node"}
    return [*problems, *truth_problems(data, names, f"one of {', '.join(sorted(names))}", path=path, lines=lines)]


def _of_change(change: dict[str, Any], node: NodeFile) -> Iterator[tuple[str, str]]:
    what = change.get("what")
    if not isinstance(what, str) or WHAT.fullmatch(what) is None:
        return
    try:
        find_target(what, node)
    except ValueError as err:
        yield "what", str(err)
        return
    if "times" in change and "to" not in change:
        try:
            own_values(what, node)
        except ValueError as err:
            yield "times", str(err)


def _of_sensor_fault(fault: dict[str, Any], node: NodeFile) -> Iterator[tuple[str, str]]:
    sensor, kind, value = fault.get("sensor"), fault.get("fault"), fault.get("value")
    if isinstance(sensor, str):
        try:
            check_sensor(sensor, node)
        except ValueError as err:
            yield "sensor", str(err)
    if kind in list(SensorFaultKind) and isinstance(value, int | float | None):
        try:
            check_value(str(sensor), str(kind), value)
        except ValueError as err:
            yield "fault" if value is None else "value", str(err)


def _of_call(fault: dict[str, Any], node: NodeFile) -> Iterator[tuple[str, str]]:
    gpu = fault.get("gpu")
    if isinstance(gpu, int) and gpu >= node.gpu_count:
        yield "gpu", f"0 to {node.gpu_count - 1}"


def workload_problems(data: Any, *, path: Path, lines: Lines) -> list[Problem]:
    """Return what is wrong with the workloads that the jobs of a scenario name."""
    problems: list[Problem] = []
    for index, job in items_of(data, "jobs"):
        name, line = job.get("workload"), lines.get(("jobs", index, "workload"))
        if isinstance(name, str):
            try:
                load_workload(resolved(name, beside=path.parent), option=str(path))
            except ConfigError as err:
                problems += at_key(err, path=path, line=line, key=f"jobs[{index}].workload")
    return problems


def truth_problems(data: Any, names: set[str], wanted: str, *, path: Path, lines: Lines) -> list[Problem]:
    """Return the entities of a scenario's truth that are none of the names, and what begins after the end."""
    problems = []
    given = isinstance(data, dict) and "duration" in data
    duration_s = _seconds(data["duration"]) if given else DURATION_S
    for index, truth in items_of(data, "truth"):
        entities, onset_s = truth.get("entities"), _seconds(truth.get("onset"))
        for place, entity in enumerate(entities if isinstance(entities, list) else ()):
            if isinstance(entity, str) and entity not in names:
                where = ("truth", index, "entities", place)
                problems.append(refusal(path, lines, where, found=entity, expected=wanted))
        if duration_s is not None and onset_s is not None and onset_s > duration_s:
            expected = f"no later than the duration of the scenario, {format_duration(duration_s)}"
            problems.append(refusal(path, lines, ("truth", index, "onset"), found=truth["onset"], expected=expected))
    return problems


def refusal(path: Path, lines: Lines, place: tuple[str | int, ...], *, found: object, expected: str) -> Problem:
    """Return the problem that something which stands at a place cannot be."""
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")
    return Problem(where=str(path), line=lines.get(place), key=key, found=f"got {found!r}", expected=expected)


def _seconds(text: object) -> float | None:
    """Return a duration, None where it is none."""
    try:
        return parse_duration_s(text)
    except ValueError:
        return None
