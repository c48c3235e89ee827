"""The facts of one run on one node that the supervisor decided and every process of the run needs."""

import hashlib
import json
import socket
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from threading import Event
from typing import Any

from config.models import Config
from physics.wiring import Origin, Wiring
from telemetry.atomic_files import replace_file
from telemetry.clock import Clock
from telemetry.entities import Entity, EntityKind
from telemetry.folder_watch import FolderWatch
from telemetry.json_text import json_bytes, json_text
from telemetry.record_journal import Position, RecordJournalReader, RecordJournalWriter, lost_of, trouble_of

FILE_NAME = "session.json"
JOURNAL_STARTS = "journal-starts.json"
SERVICE_STATUS = "service.json"
BOARDS = "boards.json"


class DriverKind(StrEnum):
    """Source of GPU values; `HUNG` is NVML that did not answer when the run began."""

    NVML = "nvml"
    HUNG = "hung"
    PLANT = "plant"
    NONE = "none"


# One journal a writing process.
JOURNALS = ("guard", "actuator", "recorder", "control", "responder")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The facts of one run that every process needs; plain data, written to the run folder.

    `run_dir` lives in memory where the machine has a memory file system, since the ring is written many times a
    second. `source` describes for people where the values come from.
    """

    run_dir: Path
    config_json: str
    driver: DriverKind
    source: str
    simulated: bool
    scenario: str | None = None
    plant_node: str | None = None
    seed: int = 1
    library_dir: str | None = None
    state_file: str | None = None
    sysfs: str = "/sys"
    kmsg: str = "/dev/kmsg"
    proc: str = "/proc"
    started_ns: int = 0
    # The simulated node describes its own wiring, since the configuration describes none.
    node_describes_wiring: bool = False
    # Names of the supplies of a simulated node by the names under which their sensors show them.
    supply_names: dict[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Config:
        """The configuration in force; parsed once in each process."""
        return _parse_config(self.config_json)

    @property
    def wiring(self) -> Wiring | None:
        """The described wiring, with who described it; None where nothing is described."""
        wiring = self.config.topology.wiring()
        return replace(wiring, origin=Origin.SIMULATED) if wiring and self.node_describes_wiring else wiring

    @property
    def node(self) -> Entity:
        """The node as an entity."""
        name = self.config.node.name or socket.gethostname()
        return Entity(kind=EntityKind.NODE, key=name, name=name)

    @property
    def ring_path(self) -> Path:
        """The ring of the sampler."""
        return self.run_dir / "ring"

    @property
    def slow_ring_path(self) -> Path:
        """The ring of the sources that may take seconds to answer."""
        return self.run_dir / "ring-slow"

    @property
    def steps_ring_path(self) -> Path:
        """Ring of the inputs of each step of the guard; only the recorder reads it."""
        return self.run_dir / "ring-steps"

    @property
    def clocks_path(self) -> Path:
        """File of the clocks that can be set, by GPU; the sampler writes it."""
        return self.run_dir / "clocks.json"

    @property
    def readings_ring_path(self) -> Path:
        """The ring of the readings that other programs send; replaced whenever one sends a new signal."""
        return self.run_dir / "ring-readings"

    @property
    def other_ring_paths(self) -> tuple[Path, ...]:
        """Every ring but the sampler's; each may appear late."""
        return self.slow_ring_path, self.readings_ring_path

    @property
    def readings_socket(self) -> Path:
        """Socket to which other programs send their readings."""
        return self.config.sources.readings.socket or self.run_dir / "readings.sock"

    @property
    def recorder_status_path(self) -> Path:
        """Status of the flight recorder, in JSON."""
        return self.run_dir / "recorder.json"

    @property
    def responder_status_path(self) -> Path:
        """Status of the responder, in JSON."""
        return self.run_dir / "responder.json"

    @property
    def service_status_path(self) -> Path:
        """Status of the records that the service stores, in JSON."""
        return self.run_dir / SERVICE_STATUS

    @property
    def page_count_path(self) -> Path:
        """Count of pages to people; a simulated node starts from zero with each run."""
        return (self.run_dir if self.simulated else self.config.data_dir) / "pages.json"

    @property
    def slow_events_path(self) -> Path:
        """Journal of the events of slow sources; the guard follows it."""
        return self.journal_path("slow")

    @property
    def person_path(self) -> Path:
        """Journal of operators' commands; the guard follows it."""
        return self.journal_path("person")

    @property
    def ranges_path(self) -> Path:
        """File of the other settings of each GPU: lowest and highest value by kind and UUID, in JSON."""
        return self.run_dir / "ranges.json"

    @property
    def baselines_path(self) -> Path:
        """Learnt baselines of each entity, in JSON; the guard writes it."""
        return self.run_dir / "baselines.json"

    @property
    def standing_path(self) -> Path:
        """Standing verdict on the supply side, in JSON; the guard renews it each minute."""
        return self.run_dir / "standing.json"

    @property
    def boards_path(self) -> Path:
        """Learnt power curves of the boards, in JSON; a simulated node starts from the table with each run."""
        return (self.run_dir if self.simulated else self.config.data_dir) / BOARDS

    @property
    def guard_path(self) -> Path:
        """State of the guard for a restart, in JSON; a simulated node starts empty with each run."""
        return (self.run_dir if self.simulated else self.config.data_dir) / "guard.json"

    @property
    def control_status_path(self) -> Path:
        """Counts of the requests of fleet services, in JSON; the control process writes it."""
        return self.run_dir / "control.json"

    @property
    def actuator_status_path(self) -> Path:
        """Counts of the actuator's journal, in JSON: slow and failed syncs, dropped bars of operators."""
        return self.run_dir / "actuator.json"

    @property
    def begun_path(self) -> Path:
        """File that exists once every process is up; time of a simulated node starts then."""
        return self.run_dir / "begun"

    @property
    def actuator_socket(self) -> Path:
        """Socket of the actuator: the privileged one if this run uses it, else the run's own."""
        return self.privileged_socket or self.run_dir / "actuator.sock"

    @property
    def privileged_socket(self) -> Path | None:
        """Socket of a separate privileged actuator; None for a simulated node, which needs none."""
        return None if self.simulated else self.config.actions.socket

    @property
    def journal_dir(self) -> Path:
        """Folder of the journals of records."""
        return self.config.data_dir / "journal"

    def journal_path(self, name: str) -> Path:
        """Return the journal file of one process; on a full disk it continues in the run folder."""
        return self.journal_dir / f"{name}.jsonl"

    def journal_writer(self, name: str) -> RecordJournalWriter:
        """Open the journal of one process for writing; it may have one writer."""
        return RecordJournalWriter(self.journal_path(name), simulated=self.simulated, spill_dir=self.run_dir)

    def journal_reader(self, name: str, position: Position | None = None) -> RecordJournalReader:
        """Open the journal of one process for reading from a position, None for its beginning."""
        return RecordJournalReader(self.journal_path(name), position, spill_dir=self.run_dir)

    def watch_journals(self, stop: Event, clock: Clock, *others: Path, gap_s: float) -> FolderWatch:
        """Return the wait for records in any journal on disk, and for files in other folders."""
        self.journal_dir.mkdir(parents=True, exist_ok=True)
        return FolderWatch((self.journal_dir, *others), stop, clock, gap_s=gap_s)

    def journal_trouble(self, names: Iterable[str]) -> str:
        """Return the first of these journals that cannot be written now and the reason; empty if all can."""
        troubles = (trouble_of(self.journal_path(name)) for name in names)
        return next(filter(None, troubles), "")

    def journal_lost(self, names: Iterable[str]) -> int:
        """Return how many records of this run were lost for lack of space in these journals."""
        return sum(lost_of(self.journal_path(name), self.run_dir) for name in names)

    def stored_position(self, name: str) -> Position | None:
        """Return the position up to which a journal is in the record file; None if nothing of it is."""
        try:
            text = (self.journal_dir / f"{name}.position").read_text(encoding="ascii")
            return tuple(int(number) for number in text.split()) or None
        except (FileNotFoundError, ValueError):
            return None

    def keep_stored_position(self, name: str, position: Position) -> None:
        """Save the position up to which a journal is in the record file."""
        body = " ".join(map(str, position)).encode()
        replace_file(self.journal_dir / f"{name}.position", body, synced=False)

    def journal_starts(self) -> dict[str, Position]:
        """Return the end of each journal when this run began; one that is not named did not exist."""
        try:
            starts = json.loads((self.run_dir / JOURNAL_STARTS).read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return {}
        return {name: tuple(position) for name, position in starts.items()}

    def keep_journal_starts(self, starts: Mapping[str, Position]) -> None:
        """Save the positions at which the journals end now."""
        (self.run_dir / JOURNAL_STARTS).write_text(json_text(dict(starts)), encoding="ascii")

    def save(self) -> None:
        """Write it to the run folder."""
        fields = {key: str(value) if isinstance(value, Path) else value for key, value in asdict(self).items()}
        # A process that starts again meanwhile reads the old file or the new one.
        replace_file(self.run_dir / FILE_NAME, json_bytes(fields), synced=False)

    @classmethod
    def load(cls, run_dir: Path) -> "RunContext":
        """Read it from the run folder."""
        fields = json.loads((run_dir / FILE_NAME).read_text(encoding="utf-8"))
        fields["run_dir"] = Path(fields["run_dir"])
        fields["driver"] = DriverKind(fields["driver"])
        return cls(**fields)


@lru_cache(maxsize=8)
def _parse_config(config_json: str) -> Config:
    return Config.model_validate_json(config_json)


def run_dir_of(data_dir: Path) -> Path:
    """Return the run folder that belongs to a data folder: one run at a time a data folder."""
    memory = Path("/dev/shm")  # noqa: S108 -- the kernel's memory file system, in a folder only we can enter
    if not memory.is_dir():
        return data_dir / "run"
    digest = hashlib.blake2b(str(data_dir.resolve()).encode(), digest_size=6).hexdigest()
    return memory / f"railwatch-{digest}"


def recordings_dir(data_dir: Path) -> Path:
    """Return the folder of the recordings."""
    return data_dir / "recordings"


def box_dir(data_dir: Path) -> Path:
    """Return the folder of the black box."""
    return data_dir / "black-box"


def wishes_dir(run_dir: Path) -> Path:
    """Return the folder through which a command requests a recording and reads the result."""
    return run_dir / "wishes"


def left_dir(run_dir: Path) -> Path:
    """Return where the run folder of a killed run stays until its last rows are in a recording."""
    return run_dir.with_name(f"{run_dir.name}.left")


def responder_folder(config: Config, *, simulated: bool) -> Path:
    """Return the folder of the responder's journal; a simulated node has its own, which outlives a killed run."""
    return config.data_dir / ("responder-simulated" if simulated else "responder")


def read_status(path: Path) -> dict[str, Any]:
    """Return the status that a process last wrote as JSON; empty if there is none."""
    try:
        status: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return status
