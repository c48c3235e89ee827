"""The suites of `railwatch evaluate`, in the order in which they run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from evaluation.control.suite import control_rows
from evaluation.domain.suite import domain_rows
from evaluation.heat.suite import heat_rows
from evaluation.judgement.suite import judgement_rows
from evaluation.pins.suite import pin_rows
from evaluation.power.suite import power_rows
from evaluation.rows import Effort, Progress, Row
from evaluation.series.suite import series_rows
from evaluation.source_resistance.suite import supply_rows
from evaluation.wallpower.suite import wallpower_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Suite: yields rows as they are ready; raises EnvironmentLacksError naming what it lacks."""

    name: str
    about: str
    rows: Callable[[Effort, Progress], Iterator[Row]]


SUITES: tuple[Suite, ...] = (
    Suite(
        name="judgement", about="simulated failures and hard negatives through the live pipeline", rows=judgement_rows
    ),
    Suite(name="supply", about="source resistance of real recordings, joints that age for months", rows=supply_rows),
    Suite(name="heat", about="cooling that fails, and cooling that does not, under recorded loads", rows=heat_rows),
    Suite(name="control", about="the clock cap in the loop: minutes to the millisecond, months", rows=control_rows),
    Suite(name="wallpower", about="real wall-power traces, as they are and with faults put in", rows=wallpower_rows),
    Suite(name="domain", about="random machines of another plant, each fault against an oracle", rows=domain_rows),
    Suite(name="power", about="measured power with faults put in, for any judge, beside baselines", rows=power_rows),
    Suite(name="pins", about="real pins of a power connector, as they are and with faults put in", rows=pin_rows),
    Suite(
        name="series", about="general detectors on SMD, ASD and NAB, beside what else could be used", rows=series_rows
    ),
)
