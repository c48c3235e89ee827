"""Looks whether what the responder of a run holds outside the GPUs stands as its journal says."""

from contextlib import ExitStack

from agent.actuation.checking import Check
from agent.responding.plan import is_ours
from agent.responding.work import OWNER, token_of
from railwatch.session import Session, responder_folder, said_in
from railwatch.wiring.responder import Placed, Setup, placed_in
from telemetry.clock import Clock
from telemetry.errors import ActionRefusedError, NotPermittedError, NotSupportedError, TransientError


def verify_outside(session: Session, clock: Clock) -> tuple[Check, ...]:
    """Read every switch that the responder last said is on; nothing is written."""
    held: dict[str, list[str]] = said_in(session.responder_status_path).get("held", {})
    folder = responder_folder(session.config, simulated=session.simulated)
    with ExitStack() as kept:
        setup = Setup(session=session, clock=clock, wait=lambda _: False, kept=kept, folder=folder)
        placed = {one.switch.name: one for one in placed_in(setup)} if held else {}
        return tuple(_check(name, placed.get(name), tuple(incidents), session) for name, incidents in held.items())


def _check(name: str, placed: Placed | None, incidents: tuple[str, ...], session: Session) -> Check:
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
            words = f"{placed.target} is {standing.words}"
    return Check(
        entity_id=f"node:{session.node.key}",
        knob=name,
        unit="",
        incidents=incidents,
        expected=None,
        in_force=None,
        agrees=agrees,
        words=words,
    )
