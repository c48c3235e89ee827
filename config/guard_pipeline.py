"""Settings of the pipeline of a node: policies and limits from the configuration."""

from agent.guard.pipeline import PipelineSettings
from config.calibrated_thresholds import limits_of
from config.models import Config
from config.policies import policies_of
from rules.policy.model import ActionClass


def pipeline_settings(config: Config, *, simulated: bool) -> PipelineSettings:
    """Return the settings of the guard."""
    modes = {action: config.actions.of(action).resolve(simulated=simulated) for action in ActionClass}
    return PipelineSettings(
        policies=policies_of(config),
        action_limits=config.limits.node_limits(modes),
        limits=limits_of(config),
        book=config.incidents,
        wiring=config.topology.wiring(),
    )
