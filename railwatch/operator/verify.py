"""Looks whether what the responder of a run holds outside the GPUs stands as its journal says."""

from contextlib import ExitStack

from agent.actuation.checking import Check
from agent.responding.switch_step import is_ours
from agent.responding.work import OWNER, token_of
from railwatch.run_context import RunContext, read_status, responder_folder
from railwatch.wiring.responder import Placed, Setup, placed_in
from telemetry.clock import Clock
from telemetry.errors import ActionRefusedError, NotPermittedError, NotSupportedError, TransientError


def verify_outside(context: RunContext, clock: Clock) -> tuple[Check, ...]:
    """Read every switch that the responder last said is on; nothing is written."""
    held: dict[str, list[str]] = read_status(context.responder_status_path).get("held", {})
    folder = responder_folder(context.config, simulated=context.simulated)
    with ExitStack() as kept:
        setup = Setup(context=context, clock=clock, wait=lambda _: False, kept=kept, folder=folder)
        placed = {one.switch.name: one for one in placed_in(setup)} if held else {}
        return tuple(_check(name, placed.get(name), tuple(incidents), context) for name, incidents in held.items())


def _check(name: str, placed: Placed | None, incidents: tuple[str, ...], context: RunContext) -> Check:
    agrees: bool | None = None
    if placed is None:
        words = "it is configured no more"
    else:
        try:
            standing = placed.switch.read(placed.target)
        except (TransientError, NotSupportedError, NotPermittedError, ActionRefusedError) as err:
            words = str(err)
        else:
            agrees = is_ours(standing, token_of(OWNER, name, placed.target))
            words = f"{placed.target} is {standing.summary}"
    return Check(
        entity_id=f"node:{context.node.key}",
        knob=name,
        unit="",
        incidents=incidents,
        expected=None,
        in_force=None,
        agrees=agrees,
        words=words,
    )
