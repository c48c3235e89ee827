"""A service in the process of a test."""

from railwatch.processes.service import Service
from railwatch.run_context import RunContext
from railwatch.wiring.node_page import NodePage
from railwatch.wiring.sample_store import StoreWriter, open_store_writer
from telemetry.store.records import RecordFile
from tests.agent.fakes import FakeClock


class Running:
    """A service in this process over the real store, record file and page."""

    def __init__(self, context: RunContext, writer: StoreWriter | None = None) -> None:
        self.clock = FakeClock()
        self.records = RecordFile(context.config.data_dir / "records")
        self.writer = writer or open_store_writer(context.config, node="node0", simulated=True, clock=self.clock)
        self.page = NodePage(context, self.records, self.writer, self.clock)
        self.service = Service(context, self.writer, self.records, self.page, self.clock)

    def close(self) -> None:
        self.writer.close()
        self.records.close()
