"""``railwatch rules test``: the cases of policies, and what policies would have done to what was recorded."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from config.loading import load_config
from config.policies import check_names, laid_over, policies_of
from railwatch.cli.layers import layers_told
from railwatch.cli.printing import pluralize, print_json, print_problems
from railwatch.cli.run_folder import ConfigFile, JsonFlag
from rules.policy.cases import run_cases
from rules.policy.loading import builtin_policy_files, load_policies
from rules.policy.model import Policy
from telemetry.errors import ConfigError


def try_policies(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Policy files or folders whose cases to run; else those of --config, else the built-in ones."
        ),
    ] = None,
    recording: Annotated[
        Path | None,
        typer.Option(help="Replay this .parquet or .csv: what the policies would have done, beside what was."),
    ] = None,
    from_store: Annotated[
        Path | None,
        typer.Option(help="The same for every recording in this data folder, beside the records kept there."),
    ] = None,
    rules: Annotated[
        Path | None, typer.Option(help="A folder of policies, taken as the site's: they replace those of the same id.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="From this UTC time on, or this long before the end, such as 7d.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Up to this UTC time, or this long before the end.")] = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Run the cases that every policy carries, or try policies on what happened; exit status 1 where a case fails.

    On a recording nothing is carried out, and the samples stay as they were: from the first difference on it says what
    the policies ask for, not what would have come of it.
    """
    if recording is None and from_store is None:
        if rules is not None or since is not None or until is not None:
            given = next(
                name
                for name, value in (("--rules", rules), ("--since", since), ("--until", until))
                if value is not None
            )
            raise typer.BadParameter("it goes with --recording or --from-store", param_hint=given)
        _run_cases(_policies_told(paths or [], config_file, as_json=as_json), as_json=as_json)
        return
    if paths or (recording is not None and from_store is not None):
        given = "PATHS" if paths else "--from-store"
        pair_decisions = "--from-store" if recording is None else "--recording"
        raise typer.BadParameter(f"it does not go with {pair_decisions}; --rules names other policies", param_hint=given)
    from railwatch.cli.rules_recorded import (  # noqa: PLC0415 -- they load the guard; cases need none
        try_recording,
        try_store,
    )

    config = load_config(config_file, os.environ)
    own = () if rules is None else (rules,)
    # What is wrong with them is said before a recording is read.
    layers_told(config, own, named=config_file is not None, as_json=as_json)
    config = laid_over(config, own)
    if recording is not None:
        try_recording(recording, config, since=since, until=until, as_json=as_json)
    elif from_store is not None:
        try_store(from_store, config, since=since, until=until, as_json=as_json)


def _policies_told(paths: Sequence[Path], config_file: Path | None, *, as_json: bool) -> tuple[Policy, ...]:
    """Load the policies whose cases are to run; tell every problem, and end, where some are bad."""
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
