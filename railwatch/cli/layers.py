"""The policies that a command is about: those in force, or a person's own laid over them."""

from collections.abc import Sequence
from pathlib import Path

import typer

from railwatch.cli.output import print_problems
from railwatch.config.models import Config
from railwatch.policies import laid_over, layers_of
from rules.loading import Layered
from telemetry.errors import ConfigError


def layers_told(config: Config, paths: Sequence[Path], *, as_json: bool) -> tuple[Layered, ...]:
    """Load the policies, these files and folders as the site's; tell every problem, and end, where some are bad."""
    try:
        return layers_of(laid_over(config, paths))
    except ConfigError as err:
        print_problems(err.problems, as_json=as_json)
        raise typer.Exit(2) from err
