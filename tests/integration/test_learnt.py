"""State learnt by the guard of a node survives the end of its process, and a kill."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from analytics.shards.packing import opened
from analytics.supply.reference import REFERENCE_WINDOWS
from railwatch.run_context import RunContext
from railwatch.supervisor import ChildSpec, Supervisor
from tests.integration.running import PATIENCE_S
from tests.integration.test_hot_add import CLOCK, NODE, Plant, session_on

# Four to eight windows of a training load whose steps last a second; twice as long where a busy machine gave none.
LEARN_S = 8.0
WHAT = "source resistance when it was first seen"


def begun(context: RunContext, name: str, supervisors: list[Supervisor]) -> RunContext:
    """Start a sampler of a real node in a run of its own, with the data of the runs before."""
    run = replace(context, run_dir=context.run_dir.with_name(name), simulated=False)
    run.run_dir.mkdir()
    run.save()
    supervisors.append(Supervisor(run.run_dir, CLOCK))
    supervisors[-1].start(
        ChildSpec(name="sampler", module="railwatch.processes.sampler", environ=os.environ, start_timeout_s=PATIENCE_S)
    )
    return run


def first_reported(run: RunContext) -> dict[str, float]:
    """Return how far each path is learnt when the guard first reports it: nothing yet, for one that starts afresh."""
    end_s = CLOCK.monotonic_s() + PATIENCE_S
    while not run.baselines_path.exists():
        assert CLOCK.monotonic_s() < end_s, "the guard tells nothing of baselines"
        CLOCK.sleep_until(CLOCK.monotonic_s() + 0.05)
    rows = json.loads(run.baselines_path.read_text(encoding="utf-8"))
    return {row["entity_id"]: row["learnt_ratio"] for row in rows if row["what"] == WHAT}


def learnt_windows(path: Path) -> int:
    return int(np.isfinite(opened(path.read_bytes())[1]["source_resistance/reference.first_ohm"]).sum())


def kill(run: RunContext) -> None:
    for process in psutil.Process().children(recursive=True):
        if str(run.run_dir) in process.cmdline():
            process.kill()
            process.wait(PATIENCE_S)


@pytest.mark.integration
@pytest.mark.timeout(300)
def test_a_guard_that_ended_or_was_killed_goes_on_with_what_it_had_learnt(tmp_path: Path) -> None:
    plant = Plant(tmp_path / "plant", NODE)
    supervisors: list[Supervisor] = []
    try:
        context = session_on(tmp_path, plant)
        kept = tmp_path / "data" / "learnt"
        learn_s, turns = LEARN_S, 0
        while not turns or not learnt_windows(kept):
            assert learn_s < PATIENCE_S, "nothing is learnt"
            run = begun(context, f"first{turns}", supervisors)
            assert first_reported(run) == {"supply:psu0": 0.0, "supply:psu1": 0.0}
            CLOCK.sleep_until(CLOCK.monotonic_s() + learn_s)
            assert supervisors[-1].stop("sampler") == 0
            learn_s, turns = 2.0 * learn_s, turns + 1
        left = learnt_windows(kept)
        run = begun(context, "second", supervisors)
        reported = first_reported(run)
        kill(run)
        assert round(REFERENCE_WINDOWS * sum(reported.values())) >= left, "the guard goes on with what it had learnt"
        assert learnt_windows(kept) >= left, "the kill took nothing of it"
    finally:
        for supervisor in supervisors:
            supervisor.stop_all()
        plant.end()
