"""Writers of samples and records: to the embedded store, or through the spool to a server."""

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from config.destination import destination_of, server_store_of
from config.models import Config
from config.store import Store, StoreKind
from dashboards.page.source import StoreState, StoreStatus
from telemetry.clock import NS_PER_S, Clock
from telemetry.errors import TransientError
from telemetry.frames import Frame, TableSpec
from telemetry.line_protocol import encode_frame, encode_records, encode_rollups, encode_text, simulated_tag
from telemetry.records import Record
from telemetry.rollup import Resolution
from telemetry.spool.spool import Spool
from telemetry.store.embedded import EmbeddedReader, EmbeddedRetention, EmbeddedStore
from telemetry.store.servers import ServerSamples
from telemetry.uplink.port import Destination
from telemetry.uplink.sender import Sender, UplinkState, UplinkStatus

# At the end, time to send the spool to a server that answers; the rest stays in the spool for the next start.
DRAIN_S = 5.0
# heuristic: a chart of a month takes a server some seconds; no one waits longer for one.
READ_S = 20.0


class StoreWriter(Protocol):
    """Writer of samples and records; `interval_s` is how often samples are written."""

    @property
    def interval_s(self) -> float:
        """Seconds between two writes."""
        ...

    def write(self, raw: Sequence[Frame], rollups: Sequence[Frame], records: Sequence[Record]) -> None:
        """Write samples, rollups and records; a record that is written twice is kept once."""
        ...

    def describe(self, measurement: str, fields: Mapping[str, float | str]) -> None:
        """Write what describes the node now; only a store that a fleet reads keeps it."""
        ...

    def status(self) -> StoreStatus:
        """Return the state of the store for the page."""
        ...

    def errors(self) -> int:
        """Return the number of failed writes so far."""
        ...

    def newest_ns(self, spec: TableSpec) -> int | None:
        """Return the time up to which a table is stored; None where storing rows twice does no harm.

        Raises
        ------
        TransientError
            The store cannot be read now.
        """
        ...

    def close(self) -> None:
        """Flush and close the store."""
        ...


def open_store_writer(config: Config, *, node: str, simulated: bool, clock: Clock) -> StoreWriter:
    """Return the writer of the store that the configuration names.

    Raises
    ------
    EnvironmentLacksError
        A folder cannot be written.
    """
    store = config.store
    if store.kind is StoreKind.EMBEDDED:
        return EmbeddedWriter(config.data_dir / "store", store, clock)
    tags = {"node": node, "simulated": simulated_tag(simulated=simulated)}
    spool = Spool(config.data_dir / "spool", max_bytes=store.spool_max)
    return ServerWriter(spool, destination_of(store), store.spool_max, tags, clock)


def open_sample_reader(config: Config, data_dir: Path) -> EmbeddedReader | ServerSamples:
    """Return the reader of the store that the configuration names.

    Raises
    ------
    EnvironmentLacksError
        There is no embedded store in the data folder, or it cannot be read.
    """
    if config.store.kind is StoreKind.EMBEDDED:
        return EmbeddedReader(data_dir / "store")
    node = config.node.name or socket.gethostname()
    return ServerSamples(server_store_of(config.store, config.fleet.reads, timeout_s=READ_S), node=node)


class EmbeddedWriter:
    """Writer of samples to local files. The service writes records to their own file in any case."""

    # heuristic: a chunk of each table costs as much for one second as for five. Rows wait in the ring, which outlives
    # this process; after a power cut up to this many seconds are lost, unless the black box recorder is in use.
    interval_s = 5.0

    def __init__(self, directory: Path, store: Store, clock: Clock) -> None:
        self._store = EmbeddedStore(
            directory,
            retention=EmbeddedRetention(
                raw_ns=int(store.raw_retention * NS_PER_S),
                rollup_ns=int(store.rollup_retention * NS_PER_S),
                max_bytes=store.embedded_max,
            ),
            clock=clock,
        )
        # Frames of the last write, if it failed: written again with the next one, then dropped.
        self._unwritten: tuple[tuple[Frame, ...], tuple[Frame, ...]] = ((), ())
        self._rows = 0
        self._dropped = 0
        self._errors = 0
        self._trouble = ""

    def write(self, raw: Sequence[Frame], rollups: Sequence[Frame], records: Sequence[Record]) -> None:
        """Write the rows since the last write; retry those that fail with the next one, then drop and count them."""
        del records
        old_raw, old_rollups = self._unwritten
        if not (raw or rollups or old_raw or old_rollups):
            return
        try:
            # Raw rows mark what is stored: after a kill in between, rollups are computed and stored again.
            self._store.write_rollups([*old_rollups, *rollups])
            old_rollups, rollups = (), ()
            self._store.write_raw([*old_raw, *raw])
        except TransientError as err:
            self._errors += 1
            self._dropped += sum(map(len, old_raw))
            self._unwritten = (tuple(raw), tuple(rollups))
            self._trouble = str(err)
        else:
            self._rows += sum(map(len, (*old_raw, *raw)))
            self._unwritten = ((), ())
            self._trouble = ""

    def describe(self, measurement: str, fields: Mapping[str, float | str]) -> None:
        """Write nothing: no fleet reads the files of a node."""

    def status(self) -> StoreStatus:
        """Return the state of the store for the page."""
        return StoreStatus(
            name="embedded store",
            state=StoreState.REFUSED if self._trouble else StoreState.EMBEDDED,
            detail=self._trouble,
            sent_points=self._rows,
            dropped_points=self._dropped,
        )

    def errors(self) -> int:
        """Return the number of failed writes so far."""
        return self._errors

    def newest_ns(self, spec: TableSpec) -> int | None:
        """Return the time of the newest stored row of a table."""
        return self._store.newest_raw_ns(spec)

    def close(self) -> None:
        """Close the files."""
        self._store.close()


class ServerWriter:
    """Writer of samples and records as line protocol, in order, through a spool on disk."""

    interval_s = 1.0

    def __init__(
        self, spool: Spool, destination: Destination, spool_max: int, tags: dict[str, str], clock: Clock
    ) -> None:
        self._spool = spool
        self._spool_max = spool_max
        self._tags = tags
        self._clock = clock
        self._sender = Sender(spool, destination, clock)
        self._sender.start()

    def write(self, raw: Sequence[Frame], rollups: Sequence[Frame], records: Sequence[Record]) -> None:
        """Append to the spool and sync it to the disk."""
        now_ns = self._clock.utc_ns()
        body = b"".join(encode_frame(frame, tags=self._tags) for frame in raw)
        if body:
            self._spool.append(Resolution.RAW, body, newest_ns=now_ns)
        slow = encode_rollups(rollups, tags=self._tags) + encode_records(records, tags=self._tags)
        if slow:
            self._spool.append(Resolution.ROLLUP, slow, newest_ns=now_ns)
        self._spool.sync()

    def describe(self, measurement: str, fields: Mapping[str, float | str]) -> None:
        """Append one line to the spool."""
        now_ns = self._clock.utc_ns()
        body = encode_text(measurement, fields, time_ns=now_ns, tags=self._tags)
        self._spool.append(Resolution.ROLLUP, body, newest_ns=now_ns)

    def status(self) -> StoreStatus:
        """Return the state of the store for the page."""
        uplink = self._sender.status()
        return StoreStatus(
            name=uplink.destination,
            state=_STATES[uplink.state],
            detail=_detail(uplink),
            spool_bytes=uplink.spool_bytes,
            spool_limit_bytes=self._spool_max,
            behind_s=uplink.behind_s if uplink.waiting_points else None,
            sent_points=uplink.sent_points,
            dropped_points=uplink.dropped_points,
            refused_points=uplink.refused_points,
        )

    def errors(self) -> int:
        """Return the number of failed writes so far."""
        return self._sender.status().errors

    def newest_ns(self, spec: TableSpec) -> int | None:
        """Return None: a server keeps one point per series and time, however often it is sent."""
        del spec
        return None

    def close(self) -> None:
        """Send the spool while the server accepts it; the rest stays on disk for the next start."""
        self._sender.stop(drain_s=DRAIN_S)
        self._spool.close()


_STATES = {
    UplinkState.STARTING: StoreState.SENDING,
    UplinkState.FLOWING: StoreState.SENDING,
    UplinkState.CATCHING_UP: StoreState.SENDING,
    UplinkState.AWAY: StoreState.AWAY,
    UplinkState.REFUSED: StoreState.REFUSED,
    UplinkState.STOPPED: StoreState.AWAY,
}


def _detail(uplink: UplinkStatus) -> str:
    if uplink.state in (UplinkState.AWAY, UplinkState.REFUSED) or uplink.refused_points:
        return uplink.last_error
    return "catching up" if uplink.state is UplinkState.CATCHING_UP else ""
