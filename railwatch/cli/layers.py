"""Policies of a command: those in force, with files of the operator as the site's."""

from collections.abc import Sequence
from pathlib import Path

import typer

from config.models import Config
from config.policies import check_names, layers_of, with_site_policies
from railwatch.cli.printing import print_problems
from rules.policy.loading import Layered
from telemetry.errors import ConfigError


def layers_or_exit(config: Config, paths: Sequence[Path], *, named: bool, as_json: bool) -> tuple[Layered, ...]:
    """Load the policies, with these paths as the site's; report every problem and exit with 2 if there are any.

    With a configuration file (`named`), names in policies are checked against it.
    """
    try:
        layers = layers_of(with_site_policies(config, paths))
        if named:
            check_names(config, [item.policy for item in layers])
    except ConfigError as err:
        print_problems(err.problems, as_json=as_json)
        raise typer.Exit(2) from err
    return layers
