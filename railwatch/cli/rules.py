"""``railwatch rules``: the policies in force, and whether they do what they say."""

import os
from pathlib import Path
from typing import Annotated

import typer

from railwatch.cli.output import print_json, print_problems, print_table
from railwatch.cli.place import ConfigFile, JsonFlag
from railwatch.config.loading import load_config
from railwatch.pipeline import policies_of
from rules.loading import builtin_policy_files, load_policies
from rules.testing import run_cases
from telemetry.errors import ConfigError

app = typer.Typer(no_args_is_help=True, help="The policies in force, and whether they do what they say.")


@app.command(name="list")
def list_command(config_file: ConfigFile = None, as_json: JsonFlag = False) -> None:
    """List the policies in force."""
    policies = policies_of(load_config(config_file, os.environ))
    if as_json:
        for policy in policies:
            print_json(
                {
                    "id": policy.id,
                    "status": policy.status.value,
                    "action": policy.then.action.value,
                    "when": policy.when.source,
                    "why": policy.why,
                }
            )
        return
    rows = [(policy.id, policy.status.value, policy.then.action.value, policy.when.source) for policy in policies]
    print_table("policies", ("id", "status", "action", "when"), rows)


@app.command(name="test", epilog="Example: railwatch rules test my-rules/ --json")
def run_policy_cases(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Policy files or folders; none tests the built-in ones.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Run the cases that every policy carries; exit status 1 where one fails."""
    try:
        policies = load_policies(tuple(paths) if paths else builtin_policy_files())
    except ConfigError as err:
        print_problems(err.problems, as_json=as_json)
        raise typer.Exit(2) from err
    results = run_cases(policies)
    for result in results:
        if as_json:
            print_json(
                {
                    "policy": result.policy_id,
                    "case": result.case,
                    "passed": result.passed,
                    "problems": list(result.problems),
                }
            )
        else:
            mark = "pass" if result.passed else "FAIL"
            typer.echo(f"{mark}  {result.policy_id}: {result.case}")
            for problem in result.problems:
                typer.echo(f"      {problem}")
    failed = sum(not result.passed for result in results)
    if not as_json:
        typer.echo(f"{len(policies)} policies, {len(results)} cases, {failed} failed")
    if failed:
        raise typer.Exit(1)
