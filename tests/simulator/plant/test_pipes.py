"""Pipes of a plant: what its job does with them, and what is left of it while the job hangs."""

import numpy as np
import pytest

from simulator.driver.layout import PIPES
from simulator.files.node import load_node
from simulator.files.precision import JobPrecision
from simulator.files.scenario import Change, ScenarioFile
from simulator.plant.pipes import SHARES, SPINNING
from simulator.plant.plant import Plant

TURN_MS = 160
HMMA = PIPES.index("hmma")


def test_a_job_that_hangs_keeps_its_gpus_busy_and_calculates_nothing() -> None:
    hang = Change.model_validate({"at": "320ms", "what": "load.hang", "to": 1})
    scenario = ScenarioFile(name="stuck", description="A collective never returns.", changes=(hang,))
    plant = Plant(load_node("h100x8"), scenario, seed=1)
    plant.advance(2 * TURN_MS)
    gpus = plant.state.gpus
    assert gpus.pipe_ratio[:, HMMA] == pytest.approx(np.full(8, SHARES[JobPrecision.BF16][HMMA]), rel=0.05)
    plant.advance(2 * TURN_MS)
    assert gpus.util_ratio.tolist() == [1.0] * 8
    assert not gpus.pipe_ratio[:, HMMA].any()
    assert gpus.pipe_ratio == pytest.approx(np.tile(0.25 * SPINNING, (8, 1)))
