"""``railwatch board``: the power curve of each board, as learnt."""

from pathlib import Path
from typing import Annotated, Any

import typer

from analytics.board_curve.windows import LoadKind
from physics.board_parts import part_of
from railwatch.cli.board_plot import curve_plot
from railwatch.cli.printing import pluralize, print_json, print_table
from railwatch.cli.run_folder import ConfigFile, DataDir, JsonFlag, check_data_dir, data_dir_of, live_session
from railwatch.operator.board_curves import (
    LoadEvidence,
    NamedBoard,
    board_named,
    boards_of_file,
    boards_of_recording,
    boards_of_store,
    load_of,
    points_of,
    power_at,
)
from railwatch.run_context import BOARDS, FILE_NAME, run_dir_of
from telemetry.entities import Entity, EntityKind
from telemetry.errors import EnvironmentLacksError
from telemetry.recording import read_recording
from telemetry.store.embedded import EmbeddedReader

app = typer.Typer(
    no_args_is_help=True,
    help="Show the power curve of each board over its clock, as learnt.",
    epilog="Example: railwatch board show gpu0",
)
_SOURCES = {"seen": "seen", "learnt": "learnt, between clocks that were seen", "table": "table of parts"}
_LOADS = {
    LoadEvidence.COMPUTE: "last load seen",
    LoadEvidence.CAPPED: "held by a limit, no other load was seen",
    LoadEvidence.FAINT: "hardly above idle power, no other load was seen",
    LoadEvidence.NONE: "not seen yet, from the table: board power of the data sheet",
}


@app.command(epilog="Example: railwatch board show gpu0 --recording monday.parquet")
def show(
    gpu: Annotated[
        str | None, typer.Argument(metavar="[GPU]", help="Name, number or UUID; without it all GPUs in one table.")
    ] = None,
    recording: Annotated[
        Path | None, typer.Option("--recording", help="Learn from a recording instead of reading a data folder.")
    ] = None,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the predicted power of each board at each clock, with bounds, and what it was learnt from.

    Without a GPU: all boards, one line each. With a GPU: its curve as a table and a plot. The curve holds for the last
    load that was seen. Where none was, it holds for the board power of the data sheet, and the bounds reach down to the
    idle power.
    """
    boards = _boards(recording, config_file, data_dir)
    if gpu is not None:
        found = board_named(boards, gpu)
        if found is None:
            known = ", ".join(board.gpu.name for board in boards)
            typer.echo(f"railwatch: {gpu}: no such GPU; expected one of {known}", err=True)
            raise typer.Exit(1)
        boards = (found,)
    if as_json:
        for board in boards:
            print_json(_fields(board))
    elif gpu is not None:
        _print_curve(boards[0])
    else:
        print_table(
            "power curves",
            ("GPU", "part", "idle", "at full clock", "at 60 %", "curve", "compute load seen"),
            [_row(board) for board in boards],
        )


def _boards(recording: Path | None, config_file: Path | None, data_dir: Path | None) -> tuple[NamedBoard, ...]:
    """Return the boards, at least one; EnvironmentLacksError where nothing is known of any."""
    if recording is not None:
        boards = boards_of_recording(read_recording(recording))
        where = f"{recording}: no GPU with a model name and clocks"
    else:
        used = data_dir_of(config_file, data_dir)
        boards = _boards_of_run(used)
        where = f"{used}: no power curve of a GPU yet; expected a run with GPUs, which saves them every minute"
    if not boards:
        raise EnvironmentLacksError(where)
    return boards


def _boards_of_run(data_dir: Path) -> tuple[NamedBoard, ...]:
    """Return the boards of a live run, else those that the last run saved, else what its stored samples show."""
    check_data_dir(data_dir)
    live = (run_dir_of(data_dir) / FILE_NAME).exists()
    path = live_session(data_dir).boards_path if live else data_dir / BOARDS
    stored = _stored(data_dir / "store")
    if path.exists():
        return boards_of_file(path, {gpu.id: gpu.name for gpu in stored[1]})
    return stored[0]


def _stored(folder: Path) -> tuple[tuple[NamedBoard, ...], tuple[Entity, ...]]:
    """Return the boards and the GPUs of the embedded store; none where there is no store."""
    try:
        reader = EmbeddedReader(folder)
    except EnvironmentLacksError:
        return (), ()
    try:
        gpus = tuple(entity for entity in reader.entities() if entity.kind is EntityKind.GPU)
        return boards_of_store(reader), gpus
    finally:
        reader.close()


def _print_curve(board: NamedBoard) -> None:
    state, points, load = board.state, points_of(board.state), load_of(board.state)
    typer.echo(f"{board.gpu.label}, {state.model}: {_origin(board)}")
    typer.echo(f"shown for {_shown(board)} ({_LOADS[load.evidence]}); idle {_idle(board)}")
    if state.memory_bound_w is not None:
        typer.echo(f"memory-bound load, kept apart: {state.memory_bound_w:.0f} W")
    rows = [
        (
            f"{point.clock_mhz:.0f} MHz",
            f"{point.power_w:.0f} W",
            f"{point.low_w:.0f} to {point.high_w:.0f} W",
            f"seen {point.seen_s:.0f} s" if point.seen_s else _SOURCES[point.source],
        )
        for point in reversed(points)
    ]
    print_table("", ("clock", "power", "95 % bounds", "from"), rows)
    for line in curve_plot(points):
        typer.echo(line)


def _row(board: NamedBoard) -> tuple[str, ...]:
    state = board.state
    full, slow = (power_at(state, ratio) for ratio in (1.0, 0.6))
    return (
        board.gpu.label,
        _part(board),
        _idle(board),
        f"{full.power_w:.0f} W ({full.low_w:.0f} to {full.high_w:.0f})",
        f"{slow.power_w:.0f} W ({slow.low_w:.0f} to {slow.high_w:.0f})",
        _origin(board),
        _load(board),
    )


def _load(board: NamedBoard) -> str:
    evidence = load_of(board.state).evidence
    if evidence is LoadEvidence.NONE:
        return "not seen yet, from the table"
    spent_s = dict(board.state.kind_s)[LoadKind.COMPUTE]
    if evidence is LoadEvidence.COMPUTE:
        return f"{spent_s:.0f} s"
    return f"{'little' if evidence is LoadEvidence.FAINT else 'capped'}: {_shown(board)}"


def _shown(board: NamedBoard) -> str:
    load = load_of(board.state)
    return f"{load.power_w:.0f} W at {load.clock_ratio * board.state.max_mhz:.0f} MHz"


def _part(board: NamedBoard) -> str:
    part = part_of(board.state.model)
    return f"{board.state.model}, not in the table of parts" if part is None else part.name


def _origin(board: NamedBoard) -> str:
    steps = board.state.curve.steps
    return f"learnt from {pluralize(steps, 'step')} of the clock" if steps else "table of parts"


def _idle(board: NamedBoard) -> str:
    idle = board.state.curve.idle_bounds()
    if board.state.idle_windows:
        return f"{idle.power_w:.0f} W seen"
    return f"{idle.power_w:.0f} W assumed ({idle.low_w:.0f} to {idle.high_w:.0f})"


def _fields(board: NamedBoard) -> dict[str, Any]:
    state, part = board.state, part_of(board.state.model)
    load, idle = load_of(state), state.curve.idle_bounds()
    return {
        "entity_id": board.gpu.id,
        "name": board.gpu.name,
        "model": state.model,
        "part": None if part is None else part.name,
        "source": None if part is None else part.source,
        "max_mhz": state.max_mhz,
        "idle_w": state.curve.idle_w,
        "idle_low_w": round(idle.low_w, 1),
        "idle_high_w": round(idle.high_w, 1),
        "idle_seen": state.idle_windows > 0,
        "steps": state.curve.steps,
        "load_w": load.power_w,
        "load_mhz": load.clock_ratio * state.max_mhz,
        "load_seen": load.evidence is LoadEvidence.COMPUTE,
        "load_from": load.evidence.value,
        "memory_bound_w": state.memory_bound_w,
        "kind_s": {kind.value: spent for kind, spent in state.kind_s},
        "curve": [
            {
                "clock_mhz": round(point.clock_mhz, 1),
                "power_w": round(point.power_w, 1),
                "low_w": round(point.low_w, 1),
                "high_w": round(point.high_w, 1),
                "seen_s": point.seen_s,
                "from": point.source,
            }
            for point in points_of(state)
        ],
    }
