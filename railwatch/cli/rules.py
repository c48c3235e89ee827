"""``railwatch rules``: list, show, compare, explain, check and test policies."""

import os
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from config.loading import load_config
from config.models import Config
from railwatch.cli.printing import pluralize, print_json, print_table
from railwatch.cli.rules_trial import layers_or_exit, try_policies
from railwatch.cli.run_folder import ConfigFile, JsonFlag
from rules.checking import Complaint, check_policies
from rules.limits.node import NodeLimits
from rules.policy.explanation import Difference, differences, explain_policy
from rules.policy.loading import Layer, Layered
from rules.policy.model import ActionClass
from telemetry.documents import Lines, read_document
from telemetry.errors import ConfigError

app = typer.Typer(
    no_args_is_help=True,
    help="List, show, compare, explain, check and test policies.",
    epilog="Example: railwatch rules explain supply-sag-clock-cap",
)
app.command(name="test", epilog="Example: railwatch rules test --recording incident.parquet --rules my-rules")(
    try_policies
)

Simulated = Annotated[bool, typer.Option("--simulated", help="Modes as on a simulated node, not on real hardware.")]
PolicyId = Annotated[str, typer.Argument(metavar="ID", help="The id of a policy.")]
Paths = Annotated[
    list[Path] | None,
    typer.Argument(help="Policy files or folders, in place of rules.dirs of the configuration."),
]
# heuristic: a longer text makes a table of keys unreadable; the file has the whole.
_VALUE_COLUMNS = 100


@app.command(name="list", epilog="Example: railwatch rules list --simulated")
def list_command(
    paths: Paths = None, simulated: Simulated = False, config_file: ConfigFile = None, as_json: JsonFlag = False
) -> None:
    """List the policies in force: the layer each comes from, its mode in force, and what it replaces."""
    config = load_config(config_file, os.environ)
    limits = _limits(config, simulated=simulated)
    found = layers_or_exit(config, paths or (), named=config_file is not None, as_json=as_json)
    if as_json:
        for item in found:
            print_json(_listed(item, limits))
        return
    rows = [
        (
            item.policy.id,
            item.layer.value,
            item.policy.then.action.value,
            limits.mode(item.policy.then.action, item.policy.then.mode).value,
            item.policy.status.value,
            "" if item.replaces is None else f"{item.replaces.layer.value} {item.replaces.policy.where}",
        )
        for item in found
    ]
    where = "a simulated node" if simulated else "real hardware"
    print_table(f"policies, modes on {where}", ("id", "layer", "action", "mode", "status", "replaces"), rows)


@app.command(epilog="Example: railwatch rules show supply-sag-clock-cap")
def show(policy_id: PolicyId, paths: Paths = None, config_file: ConfigFile = None, as_json: JsonFlag = False) -> None:
    """Show the file of one policy, the layer it comes from, and what it replaces."""
    config = load_config(config_file, os.environ)
    item = _named(policy_id, layers_or_exit(config, paths or (), named=config_file is not None, as_json=as_json))
    text = Path(item.policy.where).read_text(encoding="utf-8")
    if as_json:
        print_json({**_listed(item, _limits(config, simulated=False)), "text": text})
        return
    below, replaced = item, ""
    while below.replaces is not None:
        below = below.replaces
        replaced += f"; replaces the {below.layer.value} one, {below.policy.where}"
    typer.echo(f"# {item.layer.value}, {item.policy.where}{replaced}")
    typer.echo(text, nl=False)


@app.command(epilog="Example: railwatch rules diff supply-sag-clock-cap --config railwatch.yaml")
def diff(
    policy_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Policy id; default: every policy.")] = None,
    paths: Paths = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what each layer changes against the one below, key by key; exit status 1 if there are changes."""
    policy_id, own = _id_or_path(policy_id, paths or [])
    layers = layers_or_exit(load_config(config_file, os.environ), own, named=config_file is not None, as_json=as_json)
    chosen = layers if policy_id is None else (_named(policy_id, layers),)
    changed = False
    for item in chosen:
        upper, below = item, item.replaces
        while below is not None:
            found = tuple(differences(_data_of(below), _data_of(upper)))
            changed = changed or bool(found)
            _show_differences(upper, below, found, as_json=as_json)
            upper, below = below, below.replaces
        if upper.layer is not Layer.BUILTIN:
            changed = True
            _show_added(upper, as_json=as_json)
    if not changed and not as_json:
        typer.echo("no layer changes a policy")
    if changed:
        raise typer.Exit(1)


@app.command(epilog="Example: railwatch rules explain supply-sag-clock-cap")
def explain(
    policy_id: PolicyId,
    paths: Paths = None,
    simulated: Simulated = False,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Explain a policy: when it acts, what it does, its limits, how the action ends, and its sources."""
    config = load_config(config_file, os.environ)
    layers = layers_or_exit(config, paths or (), named=config_file is not None, as_json=as_json)
    item = _named(policy_id, layers)
    lines = explain_policy(item.policy, [other.policy for other in layers], _limits(config, simulated=simulated))
    if as_json:
        print_json({"id": item.policy.id, "words": [{"about": about, "words": text} for about, text in lines]})
        return
    console = Console(highlight=False)
    console.print(f"[bold]{escape(item.policy.id)}[/]  [dim]{item.layer.value}, {item.policy.status.value}[/]")
    shown = ""
    for about, text in lines:
        console.print(f"  [dim]{'' if about == shown else about:<7}[/] {escape(text)}", soft_wrap=True)
        shown = about


@app.command(epilog="Example: railwatch rules check my-rules --strict")
def check(
    paths: Paths = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail too.")] = False,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Find policies that can never act, contradict each other, are unbounded or never tested; exit status 1 on errors.

    The checks follow from the policies alone. With --config, every program, route and checkpoint that a policy names
    must exist in that file.
    """
    from agent.guard.outcomes import MEASURES  # noqa: PLC0415 -- it loads the guard, which no other of these needs

    config = load_config(config_file, os.environ)
    policies = tuple(
        item.policy for item in layers_or_exit(config, paths or (), named=config_file is not None, as_json=as_json)
    )
    complaints = check_policies(policies, checked=frozenset(cause.value for cause in MEASURES))
    lines = {where: read_document(Path(where))[1] for where in {item.where for item in complaints}}
    for item in complaints:
        _show_complaint(item, lines[item.where], as_json=as_json)
    errors = sum(item.flaw.is_error for item in complaints)
    if not as_json:
        found = f"{pluralize(errors, 'error')}, {pluralize(len(complaints) - errors, 'warning')}"
        typer.echo(f"{pluralize(len(policies), 'policy', 'policies')}: {found}")
    if errors or (strict and complaints):
        raise typer.Exit(1)


def _limits(config: Config, *, simulated: bool) -> NodeLimits:
    return config.limits.node_limits(
        {action: config.actions.of(action).resolve(simulated=simulated) for action in ActionClass}
    )


def _id_or_path(policy_id: str | None, paths: list[Path]) -> tuple[str | None, list[Path]]:
    """Take a first argument that is no id for a path: an id has neither a slash nor a dot."""
    if policy_id is None or not ("/" in policy_id or "." in policy_id or Path(policy_id).is_dir()):
        return policy_id, paths
    return None, [Path(policy_id), *paths]


def _named(policy_id: str, layers: Sequence[Layered]) -> Layered:
    for item in layers:
        if item.policy.id == policy_id:
            return item
    names = sorted(item.policy.id for item in layers)
    nearest = "".join(f", perhaps {name}" for name in get_close_matches(policy_id, names, n=1))
    known = f"one of {', '.join(names)}{nearest}; own policies need --config FILE or PATHS"
    raise ConfigError.at("ID", f"got {policy_id!r}", known)


def _listed(item: Layered, limits: NodeLimits) -> dict[str, Any]:
    policy = item.policy
    return {
        "id": policy.id,
        "layer": item.layer.value,
        "status": policy.status.value,
        "action": policy.then.action.value,
        "mode": limits.mode(policy.then.action, policy.then.mode).value,
        "after": policy.after,
        "when": str(policy.when),
        "why": policy.why,
        "file": policy.where,
        "replaces": None if item.replaces is None else item.replaces.policy.where,
    }


def _data_of(item: Layered) -> Any:
    data, _ = read_document(Path(item.policy.where))
    return data


def _show_differences(upper: Layered, below: Layered, found: Sequence[Difference], *, as_json: bool) -> None:
    if as_json:
        for item in found:
            print_json(
                {
                    "id": upper.policy.id,
                    "layer": upper.layer.value,
                    "file": upper.policy.where,
                    "below": below.policy.where,
                    "key": item.key,
                    "was": item.below,
                    "is": item.above,
                }
            )
        return
    title = f"{upper.policy.id}: {upper.layer.value} {upper.policy.where} against {below.layer.value}"
    rows = [(item.key, _value(item.below), _value(item.above)) for item in found]
    print_table(title, ("key", "was", "is"), rows or [("", "the same", "the same")])


def _show_added(item: Layered, *, as_json: bool) -> None:
    policy = item.policy
    if as_json:
        fields = {"id": policy.id, "layer": item.layer.value, "file": policy.where, "below": None}
        print_json({**fields, "key": "(document)", "was": None, "is": _data_of(item)})
        return
    print_table(
        f"{policy.id}: added by {item.layer.value} {policy.where}", ("key", "was", "is"), [("(document)", "-", "new")]
    )


def _value(value: object) -> str:
    text = "-" if value is None else str(value)
    return text if len(text) <= _VALUE_COLUMNS else text[: _VALUE_COLUMNS - 3] + "..."


def _show_complaint(item: Complaint, lines: Lines, *, as_json: bool) -> None:
    key: tuple[str | int, ...] = tuple(item.key.split("."))
    while key and key not in lines:
        key = key[:-1]
    level = "error" if item.flaw.is_error else "warning"
    if as_json:
        fields = {"policy": item.policy_id, "file": item.where, "line": lines.get(key), "key": item.key, "level": level}
        print_json({**fields, "flaw": item.flaw.value, "words": item.summary})
        return
    typer.echo(f"{item.where}:{lines.get(key, 1)}: {item.key}: {level}: {item.flaw.value}: {item.summary}")
