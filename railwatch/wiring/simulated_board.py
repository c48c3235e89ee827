"""Board controller of a simulated node, which serves it over Redfish."""

from dataclasses import replace

from config.sources import Bmc
from railwatch.run_context import RunContext

# Read more often than the controller measures, so that no reading is missed.
_BOARD = {"kind": "redfish", "address": "127.0.0.1", "transport": "plain", "interval": "2s"}


def with_board(context: RunContext, redfish_port: int | None) -> RunContext:
    """Return the run with the node's own controller as its board, where the configuration names no other."""
    config = context.config
    if redfish_port is None or config.sources.bmc != Bmc():
        return context
    bmc = Bmc.model_validate(_BOARD | {"port": redfish_port})
    sources = config.sources.model_copy(update={"bmc": bmc})
    return replace(context, config_json=config.model_copy(update={"sources": sources}).model_dump_json())
