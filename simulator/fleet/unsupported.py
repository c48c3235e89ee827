"""Parts of a scenario that a run in closed form would leave out."""

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import pairwise

from simulator.files.node import NodeFile
from simulator.files.scenario import Change, JobStart, Quantity, ScenarioFile, SensorFaultKind, target_of
from simulator.files.workload import Workload, load_workload
from simulator.fleet.loads import refusal
from simulator.plant.timeline import starting_values
from telemetry.durations import format_duration


def unsupported_parts(node: NodeFile, scenario: ScenarioFile, workload: Workload, *, step_s: float) -> tuple[str, ...]:
    """Return what steps of `step_s` could not show, a clause for each; empty where they show everything.

    A step sees what holds at its beginning. What comes and goes in between is lost; so are links, and delays that are
    shorter than any step. The power brake that low voltage brings is left out too, but never seen: at 10.9 V a module
    falls off its bus within milliseconds.

    Parameters
    ----------
    node
        The one that the scenario was loaded for.
    workload
        What runs before the first job of the scenario.
    """
    return (
        *_traces(scenario, workload),
        *_passing_changes(node, scenario.changes, step_s),
        *_passing_jobs(scenario.jobs, workload, step_s),
        *_faults(scenario, step_s),
        *_links(scenario.changes, node),
    )


def _traces(scenario: ScenarioFile, workload: Workload) -> Iterator[str]:
    for job in (workload, *(load_workload(start.workload, option="jobs") for start in scenario.jobs)):
        reason = refusal(job)
        if reason is not None:
            yield f"{job.name}: {reason}"


def _passing_changes(node: NodeFile, changes: Iterable[Change], step_s: float) -> Iterator[str]:
    start = starting_values(node)
    by_thing: dict[tuple[Quantity, int], dict[float, Hashable]] = {}
    names: dict[tuple[Quantity, int], str] = {}
    for change in sorted(changes, key=lambda change: change.at):
        target = target_of(change, node)
        for index in target.indices:
            thing = (target.quantity, index)
            names.setdefault(thing, change.what)
            by_thing.setdefault(thing, {-math.inf: float(start[target.quantity][index])})[change.at] = change.to
    passing = dict.fromkeys(names[thing] for thing, values in by_thing.items() if _passes(values, step_s))
    yield from (f"{what} comes and goes within a step of {format_duration(step_s)}" for what in passing)


def _passing_jobs(jobs: Iterable[JobStart], workload: Workload, step_s: float) -> Iterator[str]:
    starts: dict[float, Hashable] = {-math.inf: (workload.name, None)}
    starts |= {start.at: (start.workload, start.input_factor) for start in sorted(jobs, key=lambda start: start.at)}
    if _passes(starts, step_s):
        yield f"a job comes and goes within a step of {format_duration(step_s)}"


def _passes(values: Mapping[float, Hashable], step_s: float) -> bool:
    """Return True if a value, by its times ascending, leaves and returns to what it was between two looks."""
    seen: list[tuple[float, list[Hashable]]] = [(-math.inf, [])]
    for at_s, value in values.items():
        look_s = math.ceil(at_s / step_s) * step_s if math.isfinite(at_s) else at_s
        if look_s != seen[-1][0]:
            seen.append((look_s, []))
        seen[-1][1].append(value)
    return any(
        after[-1] == before[-1] and any(value != before[-1] for value in after)
        for (_, before), (_, after) in pairwise(seen)
    )


def _faults(scenario: ScenarioFile, step_s: float) -> Iterator[str]:
    for fault in scenario.sensor_faults:
        if fault.fault is SensorFaultKind.SKEW:
            yield f"{fault.sensor} is late by less than a step"
        elif fault.last is not None and math.ceil(fault.at / step_s) * step_s >= fault.at + fault.last:
            yield f"the fault of {fault.sensor} comes and goes within a step of {format_duration(step_s)}"


def _links(changes: Iterable[Change], node: NodeFile) -> Iterator[str]:
    loose = dict.fromkeys(
        change.what for change in changes if target_of(change, node).quantity is Quantity.LOOSENESS and change.to > 0.0
    )
    yield from (f"{what} shows on links and in hangs that come by chance" for what in loose)
