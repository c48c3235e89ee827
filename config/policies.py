"""Policies in force by the configuration, layer over layer."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from config.models import Config
from rules.policy.loading import Layer, Layered, builtin_policy_files, load_layers
from rules.policy.model import ActionClass, Policy, PolicyStatus
from telemetry.documents import read_document
from telemetry.errors import ConfigError, Problem


def layers_of(config: Config) -> tuple[Layered, ...]:
    """Load the policies in force, each with its layer: node, else site, else built-in."""
    builtin = builtin_policy_files() if config.rules.builtin else ()
    return load_layers({Layer.BUILTIN: builtin, Layer.SITE: config.rules.dirs, Layer.NODE: config.rules.node_dirs})


def with_site_policies(config: Config, paths: Sequence[Path]) -> Config:
    """Return the configuration with these files and folders as the site's policies; unchanged if there are none."""
    if not paths:
        return config
    return config.model_copy(update={"rules": config.rules.model_copy(update={"dirs": tuple(paths)})})


def policies_of(config: Config) -> tuple[Policy, ...]:
    """Load the policies in force."""
    return tuple(item.policy for item in layers_of(config))


def check_names(config: Config, policies: Collection[Policy]) -> None:
    """Refuse policies that name an unknown program, notification route or checkpoint.

    Raises
    ------
    ConfigError
        With every such name, at its line of the policy.
    """
    problems = [problem for policy in policies for problem in _unknown_names(config, policy)]
    if problems:
        raise ConfigError(problems)


def _unknown_names(config: Config, policy: Policy) -> Iterator[Problem]:
    actuators = config.actuators
    names: Mapping[ActionClass, tuple[tuple[str, ...], Collection[str]]] = {
        ActionClass.HOOK: (("then", "program"), actuators.hooks),
        ActionClass.NOTIFY: (("then", "parameters", "route"), actuators.notification.routes),
        ActionClass.CHECKPOINT: (("then", "parameters", "checkpoint"), actuators.checkpoints),
    }
    if policy.then.action not in names or policy.status is PolicyStatus.DEPRECATED:
        return
    key, known = names[policy.then.action]
    name = dict(policy.then.parameters).get(key[-1])
    if name is None or name in known:
        return
    _, lines = read_document(Path(policy.where))
    line = next((lines[key[:depth]] for depth in range(len(key), 0, -1) if key[:depth] in lines), None)
    expected = f"one of {', '.join(sorted(known))}" if known else "a name that the configuration has; it has none"
    yield Problem(where=policy.where, line=line, key=".".join(key), found=f"got {name!r}", expected=expected)
