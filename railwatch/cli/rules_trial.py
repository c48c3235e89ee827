"""``railwatch rules test``: the cases of policies, and policies tried on recordings."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from config.loading import load_config
from config.models import Config
from config.policies import check_names, layers_of, policies_of, with_site_policies
from railwatch.cli.printing import pluralize, print_json, print_problems
from railwatch.cli.run_folder import ConfigFile, JsonFlag, RulesFolder
from rules.policy.cases import run_cases
from rules.policy.loading import Layered, builtin_policy_files, load_policies
from rules.policy.model import Policy
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


def try_policies(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Policy files or folders with the cases to run; default: those of --config, else the built-in ones."
        ),
    ] = None,
    recording: Annotated[
        Path | None,
        typer.Option(help="Replay this .parquet or .csv and compare decisions with the recorded ones."),
    ] = None,
    from_store: Annotated[
        Path | None,
        typer.Option(
            readable=False, help="Replay every recording of this data folder and compare decisions with its records."
        ),
    ] = None,
    rules: RulesFolder = None,
    since: Annotated[
        str | None, typer.Option(help="Start: a UTC time, or a duration before the end, such as 7d.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="End: a UTC time, or a duration before the end.")] = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Run the cases of policies, or try policies on recordings; exit status 1 if a case fails.

    On a recording nothing is carried out, and the samples do not change: from the first difference on, the result shows
    the requests of the policies, not their effect.
    """
    if recording is None and from_store is None:
        if rules is not None or since is not None or until is not None:
            given = next(
                name
                for name, value in (("--rules", rules), ("--since", since), ("--until", until))
                if value is not None
            )
            raise typer.BadParameter("it goes with --recording or --from-store", param_hint=given)
        _run_cases(_policies_to_test(paths or [], config_file, as_json=as_json), as_json=as_json)
        return
    if paths or (recording is not None and from_store is not None):
        given = "PATHS" if paths else "--from-store"
        other = "--from-store" if recording is None else "--recording"
        raise typer.BadParameter(f"it does not go with {other}; --rules names other policies", param_hint=given)
    from railwatch.cli.rules_recorded import (  # noqa: PLC0415 -- they load the guard; cases need none
        try_recording,
        try_store,
    )

    config = load_config(config_file, os.environ)
    own = () if rules is None else (rules,)
    # Their problems are reported before a recording is read.
    layers_or_exit(config, own, named=config_file is not None, as_json=as_json)
    config = with_site_policies(config, own)
    if recording is not None:
        try_recording(recording, config, since=since, until=until, as_json=as_json)
    elif from_store is not None:
        try_store(from_store, config, since=since, until=until, as_json=as_json)


def _policies_to_test(paths: Sequence[Path], config_file: Path | None, *, as_json: bool) -> tuple[Policy, ...]:
    """Load the policies whose cases to run; report every problem and exit with 2 if there are any."""
    config = None if config_file is None else load_config(config_file, os.environ)
    try:
        if config is None:
            return load_policies(tuple(paths) if paths else builtin_policy_files())
        policies = load_policies(paths) if paths else policies_of(config)
        check_names(config, policies)
    except ConfigError as err:
        print_problems(err.problems, as_json=as_json)
        raise typer.Exit(2) from err
    return policies


def _run_cases(policies: Sequence[Policy], *, as_json: bool) -> None:
    results = run_cases(policies)
    width = max((len(policy.id) for policy in policies), default=0)
    for result in results:
        if as_json:
            fields: dict[str, Any] = {"policy": result.policy_id, "case": result.case, "passed": result.passed}
            print_json({**fields, "problems": list(result.problems)})
            continue
        typer.echo(f"{'pass' if result.passed else 'FAIL'}  {result.policy_id:<{width}}  {result.case}")
        for problem in result.problems:
            typer.echo(f"      {problem}")
    failed = sum(not result.passed for result in results)
    if not as_json:
        many = f"{pluralize(len(policies), 'policy', 'policies')}, {pluralize(len(results), 'case')}"
        typer.echo(f"{many}, {failed} failed")
    if failed:
        raise typer.Exit(1)
