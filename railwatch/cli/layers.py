"""The policies that a command is about: those in force, or a person's own laid over them."""

from collections.abc import Sequence
from pathlib import Path

import typer

from config.models import Config
from config.policies import check_names, laid_over, layers_of
from railwatch.cli.printing import print_problems
from rules.policy.loading import Layered
from telemetry.errors import ConfigError


def layers_told(config: Config, paths: Sequence[Path], *, named: bool, as_json: bool) -> tuple[Layered, ...]:
    """Load the policies, these files and folders as the site's; tell every problem, and end, where some are bad.

    Where somebody named the configuration (`named`) it has to have what they name; without one nobody knows.
    """
    try:
        layers = layers_of(laid_over(config, paths))
        if named:
            check_names(config, [item.policy for item in layers])
    except ConfigError as err:
        print_problems(err.problems, as_json=as_json)
        raise typer.Exit(2) from err
    return layers
