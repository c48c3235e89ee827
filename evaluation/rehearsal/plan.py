"""Plan of a rehearsal: checked before the simulation, and small enough to be sent to a worker."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from agent.guard.pipeline import PipelineSettings
from config.guard_pipeline import pipeline_settings
from config.loading import load_config
from rules.policy.loading import load_policies
from rules.policy.model import ActionClass
from simulator.files.node import load_node
from simulator.files.rack_scenario import is_rack_scenario
from simulator.files.scenario import load_scenario, node_for
from simulator.files.workload import load_workload
from simulator.runs.order import RunOrder, check_duration
from telemetry.errors import ConfigError
from telemetry.records import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """Rehearsal as requested; names and files, so that each worker reads them itself.

    `rules` come over the built-in policies, one by one by id; `mode` holds for every class of action.
    """

    scenario: str
    node: str | None = None
    workload: str | None = None
    rules: Path | None = None
    config_file: Path | None = None
    duration_s: float | None = None
    mode: Mode = Mode.ENFORCE

    @property
    def node_name(self) -> str:
        """Name or file of the node, of the scenario's own where none was asked for."""
        return self.node or node_for(self.scenario, option="SCENARIO")

    def order(self, seed: int) -> RunOrder:
        """Return what the simulator is asked for; ConfigError where there is no such thing."""
        if is_rack_scenario(self.scenario):
            raise ConfigError.at("SCENARIO", f"{self.scenario!r} is a scenario of a rack", "a scenario of one node")
        node = load_node(self.node_name, option="--node")
        scenario = load_scenario(self.scenario, node, option="SCENARIO")
        duration_s = scenario.duration if self.duration_s is None else self.duration_s
        check_duration(duration_s, tier="a")
        return RunOrder(
            node=node,
            scenario=scenario,
            workload=load_workload(self.workload or node.workload),
            seed=seed,
            duration_s=duration_s,
        )

    def settings(self) -> PipelineSettings:
        """Return what the guard judges and decides by; ConfigError where a file is wrong."""
        config = load_config(self.config_file, os.environ)
        settings = pipeline_settings(config, simulated=True)
        policies = settings.policies
        if self.rules is not None:
            own = load_policies((self.rules,))
            replaced = {policy.id for policy in own}
            policies = (*own, *(policy for policy in policies if policy.id not in replaced))
        limits = config.limits.node_limits(dict.fromkeys(ActionClass, self.mode))
        return replace(settings, policies=policies, action_limits=limits)
