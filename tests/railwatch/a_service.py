"""A service in the process of a test."""

from railwatch.processes.service import Service
from railwatch.session import Session
from railwatch.wiring.node_page import NodePage
from railwatch.wiring.sample_store import Keeper, open_keeper
from telemetry.store.records import RecordFile
from tests.agent.fakes import FakeClock


class Running:
    """A service in this process over the real store, record file and page."""

    def __init__(self, session: Session, keeper: Keeper | None = None) -> None:
        self.clock = FakeClock()
        self.records = RecordFile(session.config.data_dir / "records")
        self.keeper = keeper or open_keeper(session.config, node="node0", simulated=True, clock=self.clock)
        self.page = NodePage(session, self.records, self.keeper, self.clock)
        self.service = Service(session, self.keeper, self.records, self.page, self.clock)

    def close(self) -> None:
        self.keeper.close()
        self.records.close()
