"""A scenario for people: what happens when, in words and as lanes of a timeline, and what is true about it."""

from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape

from railwatch.cli.printing import print_table
from railwatch.cli.simulate.show_node import print_heading
from simulator.files.rack_scenario import RackChange, RackJobStart, RackScenarioFile
from simulator.files.scenario import Change, DriverFault, JobStart, ScenarioFile, SensorFault
from telemetry.durations import format_duration

_WIDTH = 48
# Text of a switch, by quantity: off, on.
_SWITCHES = {
    "in_service": ("goes off", "is back in service"),
    "present": ("falls off its bus", "is back"),
    "power_brake": ("power brake released", "power brake pulled"),
    "powered": ("is switched off", "is switched on"),
    "driver": ("driver unloaded", "driver loaded"),
    "hang": ("the collective returns", "the collective never returns"),
    "breaker": ("the breaker opens", "the breaker is closed"),
}
_UNITS = {"_mohm": " mΩ", "_k_per_w": " K/W", "_v": " V", "_w": " W", "_c": " °C"}
Span = tuple[float, float | None]  # from, and until: the same for a moment, None for good


def print_scenario(scenario: ScenarioFile | RackScenarioFile, *, on: str) -> None:
    """Print a scenario as it goes on one node or rack."""
    verdict = "something is wrong" if scenario.kind == "fault" else "nothing is wrong, nothing may alarm"
    kind = f"scenario of {format_duration(scenario.duration)} on {on}: {verdict}"
    print_heading(kind, scenario.name, scenario.description)
    lines = sorted(_lines(scenario), key=lambda line: line[1][0])
    if not lines:
        Console(highlight=False).print("\nNothing changes.")
        return
    print_table("\nwhat happens", ("at", "what"), [(_at(span[0]), text) for _, span, text in lines])
    console = Console(highlight=False)
    console.print(f"\n[bold]timeline[/]  0s to {format_duration(scenario.duration)}")
    for lane in dict.fromkeys(lane for lane, _, _ in lines):
        bar = _bar([span for name, span, _ in lines if name == lane], scenario.duration)
        console.print(f"{escape(lane):<14} {bar}", markup=False)
    if scenario.truth:
        print_table("\nwhat is true", ("cause", "of", "from", "until"), _truth(scenario))


def _lines(scenario: ScenarioFile | RackScenarioFile) -> Iterator[tuple[str, Span, str]]:
    for job in scenario.jobs:
        yield "jobs", (job.at, job.at), _of_job(job)
    for change in scenario.changes:
        yield "changes", (change.at, change.at + change.over), _of_change(change)
    if isinstance(scenario, RackScenarioFile):
        for part in scenario.nodes:
            yield "nodes", (0.0, None), f"node{part.node} follows the scenario {part.scenario}"
    else:
        for sensor in scenario.sensor_faults:
            yield "sensors", _span(sensor.at, sensor.last), _of_sensor(sensor)
        for driver in scenario.driver_faults:
            yield "driver", _span(driver.at, driver.last), _of_driver(driver)
    for truth in scenario.truth:
        yield "truth", (truth.onset, truth.end), f"true from here: {truth.cause.value} of {', '.join(truth.entities)}"


def _at(time_s: float) -> str:
    return format_duration(time_s) if time_s else "0s"


def _span(at_s: float, last_s: float | None) -> Span:
    return at_s, None if last_s is None else at_s + last_s


def _of_job(job: JobStart | RackJobStart) -> str:
    on = f" on {', '.join(f'node{number}' for number in job.nodes)}" if isinstance(job, RackJobStart) else ""
    factor = "" if job.input_factor is None else f", with {job.input_factor:g} times the usual switching"
    return f"job {job.workload} starts{on}{factor}"


def _of_change(change: Change | RackChange) -> str:
    entity, _, quantity = str(change.what).rpartition(".")
    over = f" over {format_duration(change.over)}" if change.over else ""
    if quantity in _SWITCHES and change.to in (0.0, 1.0):
        return f"{entity} {_SWITCHES[quantity][int(change.to)]}{over}".strip()
    unit = next((text for ending, text in _UNITS.items() if quantity.endswith(ending)), "")
    name = quantity
    for ending in _UNITS:
        name = name.removesuffix(ending) if quantity.endswith(ending) else name
    return f"{entity} {name.replace('_', ' ')} goes to {change.to:.4g}{unit}{over}".strip()


def _of_sensor(fault: SensorFault) -> str:
    value = "" if fault.value is None else f" {fault.value:g}"
    return f"sensor {fault.sensor}: {fault.fault.value}{value}{_for(fault.last)}"


def _of_driver(fault: DriverFault) -> str:
    which = "every call" if fault.call == "*" else fault.call
    what = [f"answers {fault.code}"] if fault.code is not None else []
    what += [f"takes {format_duration(fault.delay)} longer"] if fault.delay else []
    gpu = "" if fault.gpu is None else f" for GPU {fault.gpu}"
    return f"{which}{gpu} {' and '.join(what) or 'is as it was'}{_for(fault.last)}"


def _for(last_s: float | None) -> str:
    return "" if last_s is None else f", for {format_duration(last_s)}"


def _truth(scenario: ScenarioFile | RackScenarioFile) -> list[tuple[str, ...]]:
    return [
        (
            truth.cause.value,
            ", ".join(truth.entities),
            _at(truth.onset),
            "for good" if truth.end is None else _at(truth.end),
        )
        for truth in scenario.truth
    ]


def _bar(spans: list[Span], duration_s: float) -> str:
    """Draw a lane: a bar where something lasts, a mark where it is over in a moment."""
    cells = ["·"] * _WIDTH
    for start_s, end_s in spans:
        first = min(int(_WIDTH * start_s / duration_s), _WIDTH - 1)
        last = _WIDTH - 1 if end_s is None else min(int(_WIDTH * end_s / duration_s), _WIDTH - 1)
        if last == first:
            cells[first] = "|"
        else:
            cells[first : last + 1] = ["█"] * (last - first + 1)
    return "".join(cells)
