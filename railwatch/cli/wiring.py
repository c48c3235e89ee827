"""``railwatch wiring``: draw which supply feeds which GPU through which plug, check a description, propose one."""

import math
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape

from agent.ring.rings import Rings
from config.loading import load_config
from config.topology_match import mismatches
from evaluation.replay import recorded_topology, recorded_wiring
from physics.rail_classes import shown_nominals
from physics.wiring import Wiring
from railwatch.cli import wiring_learn
from railwatch.cli.printing import pluralize, print_json, print_problems, wide_console
from railwatch.cli.run_folder import ConfigFile, DataDir, JsonFlag, live_session
from railwatch.operator.standing import OVER, read_standing, standing_fields, standing_lines, standing_of
from railwatch.operator.wiring_chain import chain_fields, chain_lines
from railwatch.operator.wiring_fields import wiring_fields
from railwatch.operator.wiring_losses import loss_fields, loss_lines
from railwatch.operator.wiring_power_limits import power_limit_lines
from railwatch.operator.wiring_values import WiringValues, values_of
from railwatch.operator.wiring_view import OVER_IN_ROW, WiredNode, drawing, wired_node
from railwatch.run_context import RunContext
from telemetry.clock import NS_PER_S, SystemClock
from telemetry.documents import problem_at, read_document
from telemetry.entities import NOMINAL_SOURCE_TAG, NOMINAL_TAG, Entity, EntityKind, NominalSource, Topology
from telemetry.errors import ConfigError, EnvironmentLacksError
from telemetry.recording import read_recording

app = typer.Typer(
    no_args_is_help=True,
    help="Draw and check which supply feeds which GPU through which plug.",
    epilog="Example: railwatch wiring show",
)
RecordingOrRun = Annotated[
    Path | None, typer.Argument(help="Recording, .parquet or .csv in long form; without it the run on this node.")
]
# heuristic: long enough for several steps of a training job, short enough to be what the node does now.
_LIVE_S = 60.0


@app.command(epilog="Example: railwatch wiring show incident.parquet")
def show(
    recording: RecordingOrRun = None,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Draw feeds, supplies, buses, plugs and GPUs with volts, amperes, margins, and what a lost supply would do.

    Values are those of the last minute of the run, or of the whole recording; with --config they are put on the wiring
    of that file. Without a run and a recording, the wiring of the configuration is drawn without values. What is
    inferred and what is unknown is named.
    """
    node = _live_or_described(data_dir, config_file) if recording is None else _recorded(recording, config_file)
    if as_json:
        for fields in (*wiring_fields(node), *chain_fields(node), *loss_fields(node), *standing_fields(node.verdict)):
            print_json(fields)
        return
    console = wide_console()
    lines = (*loss_lines(node), *power_limit_lines(node), *standing_lines(node.verdict))
    for line in (*drawing(node), *chain_lines(node), *lines):
        console.print(escape(line), style="bold red" if OVER in line or OVER_IN_ROW in line else None, soft_wrap=True)


@app.command(epilog="Example: railwatch wiring check /etc/railwatch.yaml --recording incident.parquet")
def check(
    file: Annotated[Path, typer.Argument(help="Configuration file with topology:.")],
    recording: Annotated[
        Path | None, typer.Option("--recording", help="Compare with the GPUs of this recording, not of the run.")
    ] = None,
    data_dir: DataDir = None,
    as_json: JsonFlag = False,
) -> None:
    """Check a described wiring, and compare it with the GPUs of the run or of a recording if there is one.

    Exit status 2 if the description contradicts itself, 1 if it does not fit the node.
    """
    try:
        config = load_config(file, os.environ)
    except ConfigError as err:
        print_problems(err.problems, as_json=as_json)
        raise typer.Exit(2) from err
    wiring = config.topology.wiring()
    if wiring is None:
        raise ConfigError.at(file, "no wiring", "supplies and buses", key="topology")
    _, lines = read_document(file)
    topology = _topology_to_compare(recording, config.data_dir if data_dir is None else data_dir)
    found = () if topology is None else mismatches(wiring, topology, gpu_count=config.topology.gpu_count)
    problems = [problem_at(one, where=str(file), lines=lines, section=("topology",)) for one in found]
    print_problems(problems, as_json=as_json)
    if problems:
        raise typer.Exit(1)
    gpus = 0 if topology is None else len(topology.of_kind(EntityKind.GPU))
    if as_json:
        print_json({"file": str(file), "ok": True, "compared_gpus": None if topology is None else gpus})
    else:
        compared = "no node to compare with" if topology is None else f"fits {pluralize(gpus, 'GPU')} of the node"
        typer.echo(f"{file}: {pluralize(len(wiring.buses), 'bus', 'buses')}; {compared}")


app.command(epilog="Example: railwatch wiring learn incident.parquet")(wiring_learn.learn)


def _topology_to_compare(recording: Path | None, data_dir: Path) -> Topology | None:
    if recording is not None:
        return recorded_topology(read_recording(recording))
    try:
        context = live_session(data_dir)
    except EnvironmentLacksError:
        return None
    return _rings_of(context).topology


def _rings_of(context: RunContext) -> Rings:
    return Rings.attach(context.ring_path, context.other_ring_paths)


def _recorded(path: Path, config_file: Path | None) -> WiredNode:
    read = read_recording(path)
    given = None if config_file is None else load_config(config_file, os.environ).topology.wiring()
    frames, topology, wiring = [*read.frames()], recorded_topology(read), given or recorded_wiring(read)
    node = _wired_node(topology, wiring, values_of(frames))
    return replace(node, verdict=standing_of(frames, topology, wiring))


def _live_or_described(data_dir: Path | None, config_file: Path | None) -> WiredNode:
    config = load_config(config_file, os.environ)
    try:
        context = live_session(config.data_dir if data_dir is None else data_dir.absolute())
    except EnvironmentLacksError:
        described = config.topology.wiring()
        if described is None:
            raise
        return WiredNode(name=config.node.name or socket.gethostname(), wiring=described, supplies=(), gpus=())
    rings = _rings_of(context)
    now_ns = SystemClock().utc_ns()
    values = values_of([*rings.frames(start_ns=now_ns - round(_LIVE_S * NS_PER_S), stop_ns=now_ns)])
    given = None if config_file is None else config.topology.wiring()
    node = _wired_node(rings.topology, given or context.wiring, values)
    # The guard judges by the wiring that its run began with.
    return node if given else replace(node, verdict=read_standing(context.standing_path, now_ns))


def _wired_node(topology: Topology, described: Wiring | None, values: WiringValues) -> WiredNode:
    # Supplies that show neither volts nor amperes, such as shelves and switched outlets, are left out.
    supplies = tuple(
        _with_shown_nominal(one, values.supplies[one.id].voltage_v)
        for one in topology.of_kind(EntityKind.SUPPLY)
        if one.id in values.supplies
    )
    return wired_node(topology, described, supplies, values)


def _with_shown_nominal(supply: Entity, voltage_v: float | None) -> Entity:
    """Return a supply with the nominal voltage that its reading shows, where nothing else named one."""
    if supply.nominal_v is not None or voltage_v is None:
        return supply
    shown_v = float(shown_nominals(np.array([voltage_v]))[0])
    if math.isnan(shown_v):
        return supply
    tags = ((NOMINAL_TAG, f"{shown_v:g}"), (NOMINAL_SOURCE_TAG, NominalSource.READING.value))
    return replace(supply, tags=(*supply.tags, *tags))
