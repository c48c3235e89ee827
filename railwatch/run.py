"""One run on one node: chooses the source of values, starts the processes, watches and stops them in order."""

import contextlib
import fcntl
import logging
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import urlsplit

from agent.guard.foresight import is_reflex
from agent.responding.intake import OUTSIDE
from agent.responding.work_queue import is_owed
from config.actuators import Actuators
from config.models import Config
from config.sources import SourceUse
from config.topology import TopologySection
from railwatch.launcher import Launcher
from railwatch.run_context import JOURNALS, DriverKind, RunContext, left_dir, read_status, responder_folder, run_dir_of
from railwatch.supervisor import ChildSpec, Supervisor
from railwatch.wiring.gpu_probe import ProbeResult, has_driver, probe_nvml
from railwatch.wiring.simulated_board import with_board
from rules.policy.model import ActionClass
from simulator.files import DEFAULT_SCENARIO
from simulator.files.scenario import node_for
from telemetry.clock import Clock
from telemetry.errors import EnvironmentLacksError
from telemetry.folder_watch import FolderWatch
from telemetry.record_journal import RecordJournalReader
from telemetry.records import Action, Decision, Mode, Record

logger = logging.getLogger(__name__)

# A process that opens the driver may have to wait for it, as the probe did.
DRIVER_START_TIMEOUT_S = 60.0
# Processes that open the driver, or may; the first takes the first samples.
READ_THE_NODE = ("sampler", "actuator", "slow")
# The guard reads the events of the slow sources and writes them to its own journal.
SLOW = "slow"
# The journals that hold the actions on a decision.
ACTING = ("actuator", "responder")
# Longer than its own limits for a page (5 s) and a store (5 s to drain, 3 s for a request) that do not answer.
SERVICE_STOP_S = 20.0
# The recorder writes the recording that is open.
RECORDER_STOP_S = 20.0
# Processes that decide stop first; then the actuator restores the settings that it found; the recorder writes and the
# service stores the last records.
STOP_ORDER = ("control", "slow", "sampler", "actuator", "responder", "recorder", "service", "plant")
# What each process does while it stops, for a stop that takes long.
STOPPING = {
    "control": "control (closes its connections)",
    "slow": "slow (one of the slow sources has not answered yet)",
    "sampler": "sampler",
    "actuator": "actuator (restores the settings it found)",
    "responder": "responder (finishes what it began)",
    "recorder": "recorder (writes the open recording)",
    "service": "service (stores the last records)",
    "plant": "simulated node",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The options of a run; `plant_node` None uses real GPUs where there are any."""

    plant_node: str | None = None
    scenario: str | None = None
    seed: int = 1


def choose_source(
    wanted: RunRequest,
    nvml: SourceUse = SourceUse.AUTO,
    *,
    probe: Callable[[], ProbeResult] = probe_nvml,
    driver_here: Callable[[], bool] = has_driver,
) -> tuple[DriverKind, str, RunRequest]:
    """Return the driver, a description of the source for people, and the options with what they leave open.

    A node is simulated on request, or where there is no NVIDIA driver at all. A driver that is slow or
    broken belongs to a real node, which then runs on its other sources.
    """
    if wanted.plant_node is None and wanted.scenario is None:
        if nvml is SourceUse.OFF:
            return DriverKind.NONE, "no GPU read: sources.nvml is off", wanted
        found = probe()
        if found.gpus:
            sentence = f"{found.gpus} GPU{'s' if found.gpus > 1 else ''} through NVML, driver {found.driver_version}"
            return DriverKind.NVML, sentence, wanted
        if driver_here():
            return DriverKind.HUNG if found.hung else DriverKind.NVML, f"no GPU read: {found.why}", wanted
        why = f" ({found.why})"
    else:
        why = ""
    scenario = wanted.scenario or DEFAULT_SCENARIO
    wanted = replace(wanted, plant_node=wanted.plant_node or node_for(scenario), scenario=scenario)
    sentence = f"simulated node {wanted.plant_node}, scenario {wanted.scenario}{why}"
    return DriverKind.NVML, sentence, wanted


# How long an action waits for the record of its decision before it is reported without.
HOLD_BACK_NS = 1_000_000_000
# heuristic: interval between looks at processes that start or end; people read such a delay as immediate.
LOOK_S = 0.1
# heuristic: a process that ends while another holds its output is noticed this late.
IDLE_LOOK_S = 1.0


class NodeRun:
    """Everything on one node, from start to clean end.

    Attributes
    ----------
    records_lost
        How many records of the run are in no file, known once it has stopped; `record_trouble` is the reason.
    waits_for
        The process that has to end next while the run stops, and what it does.
    """

    def __init__(self, config: Config, wanted: RunRequest, clock: Clock, launcher: Launcher | None = None) -> None:
        self._config = config
        self._launcher = launcher
        self._clock = clock
        self._cleanup = ExitStack()
        self._driver, self.source, self._wanted = choose_source(wanted, config.sources.nvml)
        self.simulated = self._wanted.plant_node is not None
        self._supervisor: Supervisor | None = None
        self._changes: FolderWatch | None = None
        self._journals: dict[str, RecordJournalReader] = {}
        self._claimed = False
        self._decided: set[str] = set()
        self._held: list[Record] = []
        self._context: RunContext | None = None
        self._left: list[Record] = []
        self.records_lost = 0
        self.record_trouble = ""
        self.waits_for = ""

    def claim(self) -> None:
        """Take the port and the folders of this run, before anything is printed or started.

        Raises
        ------
        EnvironmentLacksError
            The port is in use, a folder cannot be written, or another run uses the data folder.
        """
        try:
            _check_port(self._config.page.host, self._config.page.port)
            _claim_folder(self._config.data_dir, self._cleanup)
            run_dir = run_dir_of(self._config.data_dir)
            if self._config.recorder.use is SourceUse.AUTO:
                _set_aside(run_dir, self._cleanup)
            _make_run_dir(run_dir, self._cleanup)
        except BaseException:
            self._cleanup.close()
            raise
        self._claimed = True

    def begin(self) -> None:
        """Start the simulated node, if there is one, while the caller prepares its output; `start` waits for it."""
        config = self._config
        run_dir = run_dir_of(config.data_dir)
        context = self._context = RunContext(
            run_dir=run_dir,
            config_json=config.model_dump_json(),
            driver=self._driver,
            source=self.source,
            simulated=self.simulated,
            scenario=self._wanted.scenario,
            plant_node=self._wanted.plant_node,
            seed=self._wanted.seed,
            sysfs=str(config.sources.sysfs),
            kmsg=str(config.sources.kmsg),
            proc=str(config.sources.proc),
            started_ns=self._clock.utc_ns(),
        )
        context.save()
        self._journals = {name: context.journal_reader(name) for name in JOURNALS}
        for journal in self._journals.values():
            journal.skip_to_end()
        slow = context.journal_reader(SLOW)
        slow.skip_to_end()
        context.keep_journal_starts({name: one.position for name, one in {**self._journals, SLOW: slow}.items()})
        self._supervisor = Supervisor(run_dir, self._clock, self._launcher, on_change=self._wake)
        if self.simulated:
            self._supervisor.spawn(_child("plant", dict(os.environ), start_timeout_s=30.0))

    def start(self) -> str:
        """Start every process and return the address of the page; calls `claim` and `begin` where they were not called.

        Raises
        ------
        EnvironmentLacksError
            As from `claim`, or a process reports that it cannot run.
        """
        if not self._claimed:
            self.claim()
        try:
            if self._context is None or self._supervisor is None:
                self.begin()
            return self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> str:
        config, context, supervisor = self._config, self._context, self._supervisor
        assert context is not None  # noqa: S101 -- `begin` was called
        assert supervisor is not None  # noqa: S101
        environ = dict(os.environ)
        if self.simulated:
            served = supervisor.wait_until_ready("plant")
            context = _on_plant(context, served)
            context.save()
            self.source = context.source
            environ |= served["environ"]
        node = [_child(name, environ, start_timeout_s=DRIVER_START_TIMEOUT_S) for name in READ_THE_NODE]
        if config.recorder.use is SourceUse.AUTO:
            node.append(_child("recorder", environ, stop_timeout_s=RECORDER_STOP_S))
        if config.control.use is SourceUse.AUTO:
            node.append(_child("control", environ))
        if _responds(config, simulated=self.simulated):
            node.append(_child("responder", environ))
        # None of them needs another one to be there: each could be the one that is started again.
        *_, facts = supervisor.start_together([*node, _child("service", environ, stop_timeout_s=SERVICE_STOP_S)])
        address: str = facts["address"]
        _keep_port(context, address).save()  # a service that is started again is found where it was
        context.begun_path.touch()
        return address

    def watch(self) -> Iterator[Record]:
        """Restart processes that exited, and yield the records written since the last call, in order of time."""
        if self._supervisor is not None:
            self._supervisor.watch()
        yield from self.records()

    def wait(self, stop: Event, timeout_s: float) -> bool:
        """Wait for new records or a change of a process, at most so long; return True once the stop is requested."""
        if self._context is None or self._supervisor is None:
            return stop.wait(timeout_s)
        if self._changes is None:
            self._changes = self._context.watch_journals(stop, self._clock, gap_s=LOOK_S)
            self._cleanup.callback(self._changes.close)
        look_s = IDLE_LOOK_S if self._supervisor.is_settled and not self._held else LOOK_S
        return self._changes.wait(min(timeout_s, look_s))

    def _wake(self) -> None:
        if self._changes is not None:
            self._changes.wake()

    @property
    def restarts(self) -> int:
        """How often a process was restarted."""
        return 0 if self._supervisor is None else self._supervisor.restarts

    def records(self) -> Iterator[Record]:
        """Yield the records written since the last call, in order of time and no action before its decision."""
        # Another process journals an action, and may be faster than the guard with the decision.
        acts = [one for name in ACTING for one in self._journals[name].read()] if self._journals else []
        fresh = [one for name in ("guard", "control") for one in self._journals[name].read()] if self._journals else []
        self._decided |= {record.id for record in fresh if isinstance(record, Decision)}
        fresh, self._left = [*self._left, *fresh], []
        held, self._held = [*self._held, *acts], []
        now_ns = self._clock.utc_ns()
        for act in held:
            waits = isinstance(act, Action) and not (act.decision_id in self._decided or is_reflex(act.incident_id))
            if waits and now_ns - act.time_ns < HOLD_BACK_NS:
                self._held.append(act)
            else:
                fresh.append(act)
        yield from sorted(fresh, key=lambda record: record.time_ns)

    def stop(self) -> dict[str, Any]:
        """Stop everything in order; return the exit status of each process that failed, by its name."""
        troubles: dict[str, Any] = {}
        if self._supervisor is not None:
            for name in STOP_ORDER:
                self.waits_for = STOPPING[name]
                exit_status = self._supervisor.stop(name)
                if exit_status not in (0, None):
                    troubles[name] = exit_status
            self._supervisor.stop_all()
        if self._context is not None:
            self._left = list(self.records())  # what a full disk left in the run folder goes with it
            status = read_status(self._context.service_status_path)
            self.records_lost = status.get("records_waiting", 0) + status.get("records_lost", 0)
            self.record_trouble = status.get("trouble", "") or "no space left"
        if self._launcher is not None:
            self._launcher.close()
        self._cleanup.close()
        return troubles


def _child(
    name: str, environ: dict[str, str], *, start_timeout_s: float = 30.0, stop_timeout_s: float = 10.0
) -> ChildSpec:
    return ChildSpec(
        name=name,
        module=f"railwatch.processes.{name}",
        environ=environ,
        start_timeout_s=start_timeout_s,
        stop_timeout_s=stop_timeout_s,
    )


def _responds(config: Config, *, simulated: bool) -> bool:
    """Return True if the responder has work: an action outside the GPUs is allowed, configured, or left undone."""
    modes = (
        config.actions.of(of_class).resolve(simulated=simulated)
        for of_class in OUTSIDE
        if of_class is not ActionClass.NOTIFY
    )
    may_act = any(mode is not Mode.OBSERVE for mode in modes)
    return may_act or config.actuators != Actuators() or is_owed(responder_folder(config, simulated=simulated))


def _keep_port(context: RunContext, address: str) -> RunContext:
    config = context.config
    page = config.page.model_copy(update={"port": urlsplit(address).port})
    return replace(context, config_json=config.model_copy(update={"page": page}).model_dump_json())


def _on_plant(context: RunContext, served: dict[str, Any]) -> RunContext:
    compiled = served["library_dir"] is not None
    context = with_board(context, served["redfish_port"])
    source = context.source if compiled else f"{context.source}; {served['why_in_process']}"
    config = context.config
    if config.topology == TopologySection():
        topology = TopologySection.model_validate(served["topology"])
        config_json = config.model_copy(update={"topology": topology}).model_dump_json()
        context = replace(context, config_json=config_json, node_describes_wiring=True)
    return replace(
        context,
        supply_names=served["supply_names"],
        driver=DriverKind.NVML if compiled else DriverKind.PLANT,
        source=source,
        library_dir=served["library_dir"],
        state_file=served["state_file"],
        sysfs=served["sysfs"],
        kmsg=served["kmsg"],
        proc=served["proc"],
    )


def _claim_folder(folder: Path, cleanup: ExitStack) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("a+")
    except OSError as err:
        reason = "not a folder" if isinstance(err, FileExistsError | NotADirectoryError) else err.strerror
        raise EnvironmentLacksError(f"{folder}: {reason}; expected a writable data folder") from err
    cleanup.callback(lock.close)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as err:
        raise EnvironmentLacksError(
            f"{folder}: another railwatch runs here; stop it, or use another folder with --data-dir"
        ) from err


def _check_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as err:
            raise EnvironmentLacksError(
                f"{host}:{port}: {err.strerror}; expected a free port for the page (--port 0 chooses one)"
            ) from err


def _set_aside(run_dir: Path, cleanup: ExitStack) -> None:
    """Set the run folder of a killed run aside, until the recorder has read the last rows from it."""
    left = left_dir(run_dir)
    shutil.rmtree(left, ignore_errors=True)
    if run_dir.exists():
        with contextlib.suppress(OSError):  # `_make_run_dir` removes it and raises where that fails too
            run_dir.replace(left)
        cleanup.callback(shutil.rmtree, left, ignore_errors=True)


def _make_run_dir(run_dir: Path, cleanup: ExitStack) -> None:
    try:
        shutil.rmtree(run_dir, ignore_errors=True)  # left by a killed run, whose lock is released
        run_dir.mkdir(mode=0o700, parents=True)
    except OSError as err:
        raise EnvironmentLacksError(f"{run_dir}: {err.strerror}; expected a writable run folder") from err
    cleanup.callback(shutil.rmtree, run_dir, ignore_errors=True)
