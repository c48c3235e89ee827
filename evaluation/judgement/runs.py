"""Run of the suite: a node is simulated, and the live pipeline judges its recording."""

import json
import tempfile
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from analytics.incidents.book_settings import BookSettings, Silence
from config.guard_pipeline import pipeline_settings
from config.models import Config
from evaluation.baselines import baseline_alarms
from evaluation.judgement.scoring import RunReport
from evaluation.judgement.sightings import faults_of, sightings_of
from evaluation.judgement.table import Announced
from evaluation.replay import recorded_topology, replayed
from rules.limits.node import NodeLimits
from rules.policy.model import ActionClass
from simulator.files.node import load_node
from simulator.files.scenario import load_scenario
from simulator.files.workload import load_workload
from simulator.runs.fleet_run import record_long_run
from simulator.runs.node_run import record_run
from simulator.runs.order import RunOrder, check_closed_form, tier_of
from telemetry.clock import NS_PER_S
from telemetry.recording import read_recording
from telemetry.records import Mode

# heuristic: the live guard wakes every 50 ms; rows of a quarter of a second at once give the same findings in half the
# time, and add up to that much to every delay.
_STEP_NS = 250_000_000
# heuristic: twenty rows of the closed form of a day at once; its delays are days, and its quiet runs have none.
_CLOSED_FORM_STEP_NS = 600_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """Planned run; `duration_s` and `tier` are the scenario's own where None; `announced` is planned work on it."""

    scenario: str
    node: str
    seed: int
    duration_s: float | None = None
    tier: str | None = None
    group: str = "full rate"
    together: bool = False
    announced: Announced | None = None

    @property
    def name(self) -> str:
        """Return the name shown while it runs."""
        return f"{self.scenario} on {self.node}, seed {self.seed}"


def order_of(job: JudgedRun) -> RunOrder:
    """Return the order to the simulator; ConfigError where the node cannot have the scenario."""
    node = load_node(job.node)
    scenario = load_scenario(job.scenario, node)
    return RunOrder(
        node=node,
        scenario=scenario,
        workload=load_workload(node.workload),
        seed=job.seed,
        duration_s=scenario.duration if job.duration_s is None else job.duration_s,
    )


def judge_run(job: JudgedRun) -> RunReport:
    """Simulate a run, judge it and return what was reported; deterministic for a job. Costs about 0.3 s per second."""
    order = order_of(job)
    closed_form = tier_of(order.duration_s, job.tier) == "b"
    if closed_form:
        check_closed_form(order)
    with tempfile.TemporaryDirectory(prefix="railwatch-evaluate-") as folder:
        out, truth = Path(folder) / "run.parquet", Path(folder) / "truth.json"
        (record_long_run if closed_form else record_run)(order, out, truth=truth)
        reported = json.loads(truth.read_text(encoding="utf-8"))
        read = read_recording(out)
        settings = pipeline_settings(Config(), simulated=True)
        settings = replace(
            settings,
            action_limits=NodeLimits(modes=dict.fromkeys(ActionClass, Mode.RECOMMEND)),
            book=BookSettings(silences=_silences(job, reported["start_ns"])),
        )
        step_ns = _CLOSED_FORM_STEP_NS if closed_form else _STEP_NS
        sightings = sightings_of(replayed(read, settings, window_ns=step_ns))
        drops_ns = [drop["time_ns"] for drop in reported["drops"]]
        return RunReport(
            scenario=job.scenario,
            node=job.node,
            seed=job.seed,
            group=job.group,
            quiet=order.scenario.kind == "quiet",
            duration_s=reported["duration_s"],
            faults=faults_of(reported["labels"], recorded_topology(read), node=job.node, together=job.together),
            first_drop_ns=min(drops_ns, default=None),
            sightings=sightings,
            baselines=() if closed_form else baseline_alarms(read.frames()),
        )


def _silences(job: JudgedRun, start_ns: int) -> tuple[Silence, ...]:
    if job.announced is None:
        return ()
    began = datetime.fromtimestamp(start_ns / NS_PER_S, UTC)
    return (
        Silence(
            entity=job.announced.entity,
            start=began + timedelta(seconds=job.announced.start),
            until=began + timedelta(seconds=job.announced.until),
            who="evaluate",
            why=f"announced work of {job.scenario}",
        ),
    )
