"""Parts of the fleet daemon, built from the configuration."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from agent.responding.notification.build import build_notifier
from agent.responding.notification.notifier import Sender
from agent.responding.schedulers.slurm import SlurmCommands, SlurmDrain
from analytics.fleet.judge import FleetSettings
from config.actuators import Scheduler
from config.destination import destination_of, server_store_of
from config.models import Config
from config.sources import SourceUse
from fleet.acting import FleetActing, FleetActuators
from fleet.agent_client import AgentClient, TlsTransport
from fleet.certificates.identity import (
    Expiry,
    authority_key,
    check_private,
    client_context,
    private_key,
    valid_until_ns,
)
from fleet.certificates.tokens import read_token
from fleet.daemon import FleetDaemon
from fleet.ledger_file import CommandReader, LedgerFile
from fleet.loop import FleetLoop, LoopSettings
from fleet.outbox import Outbox, Published
from fleet.reader import FleetReader, ServerFleetReader
from rules.fleet.engine import FleetEngine
from rules.fleet.loading import load_fleet_policies
from rules.policy.model import ActionClass
from telemetry.clock import Clock
from telemetry.errors import EnvironmentLacksError
from telemetry.identity_names import Identity

STATE = "fleet.state"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetParts:
    """Parts of the fleet daemon."""

    reader: FleetReader
    outbox: Outbox
    loop: FleetLoop
    daemon: FleetDaemon
    close_acting: Callable[[], None]


def open_fleet(
    config: Config,
    clock: Clock,
    *,
    since_ns: int | None = None,
    until_ns: int | None = None,
    stopping: Callable[[], bool] = lambda: False,
    on_published: Callable[[tuple[Published, ...]], None] = lambda _: None,
) -> FleetParts:
    """Open all parts; only the sender runs yet.

    Raises
    ------
    EnvironmentLacksError
        The data folder is not writable, or another fleet loop uses it.
    """
    own = config.fleet
    reader = ServerFleetReader(server_store_of(config.store, own.reads, timeout_s=own.deadline))
    outbox = Outbox(
        config.data_dir, destination_of(config.store), clock, name=own.name, spool_max_bytes=config.store.spool_max
    )
    loop = FleetLoop(
        reader,
        outbox,
        FleetSettings(limits=config.detectors, book=config.incidents, above=own.above, forget_s=own.forget),
        LoopSettings(
            every_s=int(own.every),
            lateness_s=int(own.lateness),
            deadline_s=own.deadline,
            catch_up_s=own.catch_up,
            since_ns=since_ns,
            until_ns=until_ns,
        ),
        clock,
        state_path=config.data_dir / STATE,
        stopping=stopping,
        on_published=on_published,
    )
    acting, close = open_acting(config, outbox, clock)
    daemon = FleetDaemon(
        loop, outbox, clock, name=own.name, every_s=own.every, keep_every_s=own.keep_every, acting=acting
    )
    return FleetParts(reader=reader, outbox=outbox, loop=loop, daemon=daemon, close_acting=close)


def open_acting(config: Config, outbox: Outbox, clock: Clock) -> tuple[FleetActing | None, Callable[[], None]]:
    """Open the acting part and the function that closes it; None where the service does not act.

    Raises
    ------
    ConfigError
        A policy cannot be used.
    EnvironmentLacksError
        A certificate, a key or a token is missing.
    """
    act, identity = config.fleet.act, config.fleet.act.identity
    if act.use is SourceUse.OFF or identity is None or act.token is None:
        return None, lambda: None
    # Outside a rehearsal a fleet has real nodes: mode `auto` observes.
    modes = {one: config.actions.of(one).resolve(simulated=False) for one in ActionClass}
    policies = load_fleet_policies(act.dirs, builtin=act.builtin)
    ledger = LedgerFile(config.data_dir, clock)
    memory = ledger.load()
    token = token_in(act.token)
    wire = TlsTransport(client_context(identity), act.agents, port=act.port, token=token)
    expiry = Expiry(
        until_ns=min(valid_until_ns(identity), expires_ns(token, identity, where=act.token)),
        what=f"the certificate or the token of {config.fleet.name}",
    )
    client = AgentClient(
        fleet=config.fleet.name,
        key=private_key(identity.key),
        token=token,
        wire=wire,
        clock=clock,
        term=ledger.begin_term(),
        instance=token_hex(8),
    )
    notifier = build_notifier(
        config.actuators.notification.settings(),
        folder=config.data_dir / "notification",
        sender=Sender(node=config.fleet.name),
        clock=clock,
    )
    notifier.start()
    drain = None
    if Scheduler.SLURM in config.actuators.drain:
        drain = SlurmDrain(SlurmCommands(config.actuators.slurm.settings(""), clock))
    acting = FleetActing(
        FleetEngine(policies, act.fleet_limits(config.fleet.name, modes, config.limits), memory),
        FleetActuators(client=client, drain=drain, messages=(notifier,)),
        ledger,
        outbox,
        clock,
        commands=CommandReader(config.data_dir, memory.person),
        expiry=expiry,
    )

    def close() -> None:
        wire.close()
        notifier.close()

    return acting, close


def token_in(path: Path) -> str:
    """Return the token of a service; EnvironmentLacksError where it is unreadable, or readable by other users."""
    check_private(path)
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as err:
        raise EnvironmentLacksError(f"{path}: cannot be read; expected a token of railwatch fleet ca token") from err


def expires_ns(token: str, identity: Identity, *, where: Path) -> int:
    """Return when a token expires; EnvironmentLacksError where the authority that agents trust did not sign it."""
    try:
        return read_token(token, authority_key(identity.authority)).expires_ns
    except ValueError as err:
        raise EnvironmentLacksError(f"{where}: {err}; expected a token of railwatch fleet ca token") from err
