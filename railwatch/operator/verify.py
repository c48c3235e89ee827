"""Comparison of what the responder of a run holds outside the GPUs with its status."""

from contextlib import ExitStack

from agent.actuation.knobs import KnobCheck
from agent.responding.work import OWNER, is_ours, token_of
from railwatch.run_context import RunContext, read_status, responder_folder
from railwatch.wiring.responder import PlacedSwitch, ResponderSetup, placed_in
from telemetry.clock import Clock
from telemetry.errors import ActionRefusedError, NotPermittedError, NotSupportedError, TransientError


def verify_outside(context: RunContext, clock: Clock) -> tuple[KnobCheck, ...]:
    """Read every switch that is on by the last status of the responder; nothing is written."""
    held: dict[str, list[str]] = read_status(context.responder_status_path).get("held", {})
    folder = responder_folder(context.config, simulated=context.simulated)
    with ExitStack() as kept:
        setup = ResponderSetup(context=context, clock=clock, wait=lambda _: False, kept=kept, folder=folder)
        placed = {one.switch.name: one for one in placed_in(setup)} if held else {}
        return tuple(_check(name, placed.get(name), tuple(incidents), context) for name, incidents in held.items())


def _check(name: str, placed: PlacedSwitch | None, incidents: tuple[str, ...], context: RunContext) -> KnobCheck:
    agrees: bool | None = None
    if placed is None:
        result = "no longer configured"
    else:
        try:
            state = placed.switch.read(placed.target)
        except (TransientError, NotSupportedError, NotPermittedError, ActionRefusedError) as err:
            result = str(err)
        else:
            agrees = is_ours(state, token_of(OWNER, name, placed.target))
            result = f"{placed.target} is {state.summary}"
    return KnobCheck(
        entity_id=f"node:{context.node.key}",
        knob=name,
        unit="",
        incidents=incidents,
        expected=None,
        in_force=None,
        agrees=agrees,
        summary=result,
    )
