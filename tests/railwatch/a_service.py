"""A service in the process of a test."""

from collections.abc import Iterator, Sequence

from railwatch.processes.service import Service
from railwatch.run_context import RunContext
from railwatch.wiring.node_page import NodePage
from railwatch.wiring.sample_store import StoreWriter, open_store_writer
from telemetry.entities import EntityKind
from telemetry.frames import Frame
from telemetry.series import FULL_RATE, series_of
from telemetry.store.records import RecordFile
from tests.agent.fakes import FakeClock


class NoSamples:
    """Reader of a store that keeps nothing."""

    def series(
        self, kind: EntityKind, signals: Sequence[str], *, start_ns: int, stop_ns: int, step_ns: int = FULL_RATE
    ) -> Frame:
        return series_of((), kind, signals, step_ns=step_ns)

    def frames(self, *, start_ns: int, stop_ns: int) -> Iterator[Frame]:
        return iter(())


class Running:
    """A service in this process over the real store, record file and page."""

    def __init__(self, context: RunContext, writer: StoreWriter | None = None) -> None:
        self.clock = FakeClock()
        self.records = RecordFile(context.config.data_dir / "records")
        self.writer = writer or open_store_writer(context.config, node="node0", simulated=True, clock=self.clock)
        self.page = NodePage(context, self.records, self.writer, NoSamples(), self.clock)
        self.service = Service(context, self.writer, self.records, self.page, self.clock)

    def close(self) -> None:
        self.writer.close()
        self.records.close()
