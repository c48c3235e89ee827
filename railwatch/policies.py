"""The policies that a configuration puts in force, layer over layer."""

from collections.abc import Sequence
from pathlib import Path

from railwatch.config.models import Config
from rules.loading import Layer, Layered, builtin_policy_files, load_layers
from rules.policy import Policy


def layers_of(config: Config) -> tuple[Layered, ...]:
    """Load the policies in force, each with the layer it comes from: the node's, else the site's, else the built-in."""
    builtin = builtin_policy_files() if config.rules.builtin else ()
    return load_layers({Layer.BUILTIN: builtin, Layer.SITE: config.rules.dirs, Layer.NODE: config.rules.node_dirs})


def laid_over(config: Config, paths: Sequence[Path]) -> Config:
    """Give the configuration with these files and folders as the site's policies; as it is where there are none."""
    if not paths:
        return config
    return config.model_copy(update={"rules": config.rules.model_copy(update={"dirs": tuple(paths)})})


def policies_of(config: Config) -> tuple[Policy, ...]:
    """Load the policies in force."""
    return tuple(item.policy for item in layers_of(config))
