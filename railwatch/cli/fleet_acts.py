"""``railwatch fleet status|reset-breaker|approve|reject|rehearse``: commands of operators to a fleet service."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import TextColumn
from rich.text import Text

from config.loading import load_config
from config.models import Config
from fleet.agent_client import TlsTransport
from fleet.building import token_in
from fleet.certificates.identity import client_context
from fleet.ledger_file import LEDGER, command_writer, read_memory, service_runs
from railwatch.cli.baselines import current_user
from railwatch.cli.printing import print_json, progress_bar
from railwatch.cli.run_folder import ConfigFile, DataDir, JsonFlag, data_dir_of
from railwatch.operator.commands import send_and_wait
from rules.fleet.memory import FleetMemory
from telemetry.clock import SystemClock, iso_utc
from telemetry.commands import CommandVerb, new_command
from telemetry.errors import EnvironmentLacksError, RailwatchError

# heuristic: a service acts every 5 s by default; the rest is for a slow store or agent.
SERVICE_WITHIN_S = 15.0

Reason = Annotated[str, typer.Option("--reason", help="Reason, kept in the record.")]


def status(
    config_file: ConfigFile = None,
    data_dir: DataDir = None,
    ask: Annotated[bool, typer.Option("--ask", help="Query the agents of fleet.act.agents too.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show the actions of a fleet service: begun, in force, left of its budget; and its breaker.

    Exit status 1 while the breaker is tripped.
    """
    folder = data_dir_of(config_file, data_dir)
    memory = _memory(folder)
    rows = [_summary(memory), *map(_claim_row, memory.claims.values())]
    if ask:
        rows += _asked(config_file)
    if as_json:
        for row in rows:
            print_json(row)
    else:
        _show(rows)
    if memory.ledger.breaker is not None:
        raise typer.Exit(1)


def reset_breaker(reason: Reason, config_file: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Reset the tripped breaker of a fleet service; only an operator can."""
    folder = data_dir_of(config_file, data_dir)
    breaker = _memory(folder).ledger.breaker
    if breaker is None:
        typer.echo("the breaker is not tripped", err=True)
        raise typer.Exit(1)
    _check_reason(reason)
    _send(folder, CommandVerb.RESET_BREAKER, "", reason)


def approve(
    decision: Annotated[str, typer.Argument(metavar="DECISION", help="Decision id, as fleet status prints it.")],
    reason: Reason,
    config_file: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Approve a pending decision of a fleet service."""
    _answer(CommandVerb.APPROVE, decision, reason, data_dir_of(config_file, data_dir))


def reject(
    decision: Annotated[str, typer.Argument(metavar="DECISION", help="Decision id, as fleet status prints it.")],
    reason: Reason,
    config_file: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Reject a pending decision of a fleet service; its policy does not act on the incident again."""
    _answer(CommandVerb.REJECT, decision, reason, data_dir_of(config_file, data_dir))


def rehearse(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="Scenario to rehearse: pdu-sag.")],
    nodes: Annotated[int, typer.Option(min=2, max=10_000, help="Nodes on the PDU that sags.")] = 1000,
    others: Annotated[
        int | None, typer.Option(min=0, max=10_000, help="Nodes on another PDU; default: a quarter of --nodes.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Rehearse a scenario on a simulated fleet, with the real loop, limits, signatures and admission of agents.

    Exit status 1 unless the sag becomes one incident at the PDU, one page, and actions within the budget.
    """
    from fleet.rehearsal.pdu_sag import (  # noqa: PLC0415 -- no other command needs it
        LATENESS_S,
        WATCHED_S,
        PduSag,
    )

    if scenario != "pdu-sag":
        raise typer.BadParameter(f"got {scenario!r}; expected pdu-sag", param_hint="SCENARIO")
    seconds = TextColumn("{task.completed:.0f} of {task.total:.0f} seconds")
    with (
        tempfile.TemporaryDirectory(prefix="railwatch-") as folder,
        progress_bar("rehearsing", WATCHED_S + LATENESS_S, seconds) as progress,
    ):
        sag = PduSag(Path(folder), nodes=nodes, others=nodes // 4 if others is None else others)
        result = sag.run(reached=progress)
    row = {
        "scenario": scenario,
        "nodes": result.nodes,
        "fleet_nodes": result.fleet_nodes,
        "incidents": len(result.incidents),
        "incidents_at_the_pdu": len(result.at_the_pdu),
        "nodes_acted_on": len(result.acted_on),
        "racks_acted_on": result.racks_acted_on,
        "budget_nodes": result.budget_nodes,
        "pages": len(result.pages),
        "breaker": result.breaker,
        "holds": result.holds,
    }
    if as_json:
        print_json(row)
    else:
        sys.stdout.writelines(f"{name.replace('_', ' '):<22}{_text(value)}\n" for name, value in row.items())
    if not result.holds:
        raise typer.Exit(1)


def _text(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value) or "whole"


def _memory(folder: Path) -> FleetMemory:
    memory = read_memory(folder)
    if memory is None:
        raise EnvironmentLacksError(
            f"{folder / LEDGER}: no such file; expected the data folder of a fleet service that acts"
        )
    return memory


def _check_reason(reason: str) -> None:
    if not reason.strip():
        raise typer.BadParameter("got no text; expected the reason, kept in the record", param_hint="--reason")


def _answer(verb: CommandVerb, decision: str, reason: str, folder: Path) -> None:
    _check_reason(reason)
    waiting = [one.decision_id for one in _memory(folder).pending.values()]
    if decision not in waiting:
        expected = f"expected one of {', '.join(waiting)}" if waiting else "no decision is pending"
        typer.echo(f"railwatch: {decision}: no such pending decision; {expected}", err=True)
        raise typer.Exit(1)
    _send(folder, verb, decision, reason)


def _send(folder: Path, verb: CommandVerb, subject: str, reason: str) -> None:
    """Append a command and wait for the service, if one runs on this folder, to take it."""
    clock = SystemClock()
    try:
        command = new_command(verb, subject, who=current_user(), why=reason.strip(), now_ns=clock.utc_ns())
    except ValueError as err:
        raise typer.BadParameter(str(err)) from err
    before = _memory(folder).person
    running = service_runs(folder)
    taken = send_and_wait(
        command_writer(folder),
        [command],
        lambda: running and _memory(folder).person != before,
        within_s=SERVICE_WITHIN_S if running else 0.0,
        clock=clock,
    )
    typer.echo(command.message if taken else f"{command.message}; the service takes it at its next step")


def _summary(memory: FleetMemory) -> dict[str, Any]:
    breaker = memory.ledger.breaker
    return {
        "type": "fleet",
        "breaker": None if breaker is None else breaker.reason,
        "breaker_since": None if breaker is None else iso_utc(breaker.tripped_ns),
        "knows_since": iso_utc(memory.ledger.since_ns),
        "begun_in_window": len(memory.ledger.begun),
        "wanted_in_window": len(memory.ledger.wanted),
        "held": len(memory.claims),
        "waiting": [one.decision_id for one in memory.pending.values()],
        "unsent": len(memory.unsent),
    }


def _claim_row(claim: Any) -> dict[str, Any]:
    return {
        "type": "claim",
        "node": claim.node,
        "rack": claim.rack,
        "action": claim.action.value,
        "state": claim.state.value,
        "since": iso_utc(claim.begun_ns),
        "incident_id": claim.incident_id,
        "policy": claim.policy_id,
        "reason": claim.reason,
    }


def _asked(config_file: Path | None) -> list[dict[str, Any]]:
    config = load_config(config_file, os.environ)
    wire = _wire(config)
    rows: list[dict[str, Any]] = []
    for node in config.fleet.act.agents:
        try:
            rows.append({"type": "agent", **wire.status(node)})
        except RailwatchError as err:
            rows.append({"type": "agent", "node": node, "trouble": str(err)})
    wire.close()
    return rows


def _wire(config: Config) -> TlsTransport:
    act, identity = config.fleet.act, config.fleet.act.identity
    if identity is None or act.token is None:
        raise EnvironmentLacksError("fleet.act has no certificates; expected those of railwatch fleet ca")
    return TlsTransport(client_context(identity), act.agents, port=act.port, token=token_in(act.token))


def _show(rows: list[dict[str, Any]]) -> None:
    console = Console(highlight=False)
    for row in rows:
        kind = row.pop("type")
        text = "  ".join(f"{name} {value}" for name, value in row.items() if value not in (None, "", []))
        console.print(Text(f"{kind:<6} ", style="bold").append(text, style="not bold"), soft_wrap=True)
