"""The parts of the fleet daemon, put together as the configuration says."""

from collections.abc import Callable
from dataclasses import dataclass

from analytics.fleet.judge import FleetSettings
from railwatch.config.fleet import FleetStore
from railwatch.config.models import Config, Store, StoreKind
from railwatch.fleet.daemon import FleetDaemon
from railwatch.fleet.influx import InfluxFleetReader
from railwatch.fleet.loop import FleetLoop, LoopSettings
from railwatch.fleet.outbox import Outbox, Told
from railwatch.fleet.port import FleetReader
from railwatch.fleet.victoria import VictoriaFleetReader
from railwatch.keeping import destination_of
from telemetry.clock import Clock
from telemetry.store.influxql import InfluxQl
from telemetry.store.port import Resolution

STATE = "fleet.state"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The fleet daemon's parts."""

    reader: FleetReader
    outbox: Outbox
    loop: FleetLoop
    daemon: FleetDaemon


def open_fleet(
    config: Config,
    clock: Clock,
    *,
    since_ns: int | None = None,
    until_ns: int | None = None,
    stopping: Callable[[], bool] = lambda: False,
    on_news: Callable[[tuple[Told, ...]], None] = lambda _: None,
) -> Fleet:
    """Open everything; nothing runs yet but the sender.

    Raises
    ------
    EnvironmentLacksError
        The data folder cannot be written, or another fleet loop has it.
    """
    own = config.fleet
    reader = reader_of(config.store, own.reads, timeout_s=own.deadline)
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
        on_news=on_news,
    )
    daemon = FleetDaemon(loop, outbox, clock, name=own.name, every_s=own.every, keep_every_s=own.keep_every)
    return Fleet(reader=reader, outbox=outbox, loop=loop, daemon=daemon)


def reader_of(store: Store, reads: FleetStore, *, timeout_s: float) -> FleetReader:
    """Give the reader of a store's rollups."""
    url = store.url or ""
    if reads is FleetStore.VICTORIAMETRICS:
        if store.kind is StoreKind.INFLUXDB2:
            return VictoriaFleetReader(url, basic_auth=store.token if store.basic_auth else None, timeout_s=timeout_s)
        basic = None if store.username is None else f"{store.username}:{store.password or ''}"
        return VictoriaFleetReader(url, basic_auth=basic, timeout_s=timeout_s)
    if store.kind is StoreKind.INFLUXDB2:
        # A 2.x server gives InfluxQL each bucket as a database of its name with this one retention policy.
        ql = InfluxQl(url, token=store.token, timeout_s=timeout_s)
        return InfluxFleetReader(ql, database=f"{store.bucket}-rollup", policy="autogen")
    ql = InfluxQl(url, username=store.username, password=store.password, timeout_s=timeout_s)
    return InfluxFleetReader(ql, database=store.database, policy=str(Resolution.ROLLUP))
