"""Real responder process over a run folder, to start, kill and inspect it."""

import atexit
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from agent.responding.work import HeldSwitch, token_of
from agent.responding.work_queue import WorkQueue
from railwatch.run_context import DriverKind, RunContext, read_status, responder_folder
from telemetry.clock import SystemClock
from telemetry.record_journal import RecordJournalWriter
from telemetry.records import Action, Decision, Mode, Verdict
from tests.waiting import wait_for

PATIENCE_S = 60.0
# Answers as scontrol does for one node, whose state lies in a file; it takes its time, so that a kill finds it at work.
SCONTROL = """\
#!/bin/sh
state="{folder}/node"
sleep 0.02
case "$1" in
  show)
    printf 'NodeName=box State=%s\\n' "$(cat "$state" 2>/dev/null || echo IDLE)" ;;
  update)
    case "$3" in
      state=drain) printf 'IDLE+DRAIN Reason=%s [root@2026-01-01T00:00:00]' "${{4#reason=}}" > "$state.new" ;;
      state=undrain) printf IDLE > "$state.new" ;;
    esac
    mv "$state.new" "$state" ;;
esac
sleep 0.02
"""
# Writes down that it ran, and takes its time before and after.
PROGRAM = """\
#!/bin/sh
sleep 0.02
echo "$RAILWATCH_TOKEN" >> "{folder}/ran"
sleep 0.02
"""


# Has the code of the responder loaded, which takes most of a start, and runs it in a process of its own over the run
# folder that each line names.
_BEGINNER = """
import os, sys
import lightkube.resources.core_v1
from railwatch.processes import responder
for line in sys.stdin:
    sys.argv[1:] = [line.rstrip()]
    own = os.fork()
    if own == 0:
        given, kept = os.pipe()  # stands for the supervisor, who holds the input open
        os.dup2(given, 0)
        print("pid", os.getpid(), flush=True)
        responder.run_child(responder.main)
    print("ended", os.waitstatus_to_exitcode(os.waitpid(own, 0)[1]), flush=True)
"""


class Processes:
    """Real responder processes, one at a time."""

    def __init__(self, beginner: subprocess.Popen[str], run_dir: Path) -> None:
        self._run_dir = run_dir
        assert beginner.stdin is not None
        assert beginner.stdout is not None
        self._ask = beginner.stdin
        self._answers = beginner.stdout
        self._pid: int | None = None

    def start(self) -> None:
        """Start a responder and wait until it is ready."""
        self._ask.write(f"{self._run_dir}\n")
        self._ask.flush()
        self._pid = int(self._answers.readline().removeprefix("pid "))
        assert self._answers.readline() == '{"ready":{}}\n'

    def kill(self) -> None:
        """Kill the running responder, as ``kill -9`` does."""
        if self._pid is not None:
            self._end(signal.SIGKILL)

    def end(self) -> int:
        """Stop the running responder and return its exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        assert self._pid is not None
        os.kill(self._pid, number)
        self._pid = None
        return int(self._answers.readline().removeprefix("ended "))


@cache
def _beginner() -> subprocess.Popen[str]:
    """Return the nursery of this test process, which ends with it."""
    beginner = subprocess.Popen(
        [sys.executable, "-c", _BEGINNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"RAILWATCH_LOG_LEVEL": os.environ.get("RAILWATCH_LOG_LEVEL", "CRITICAL")},
    )

    def end() -> None:
        with beginner:  # waits for it and closes what led to it
            beginner.kill()

    atexit.register(end)
    return beginner


@dataclass(slots=True)
class Run:
    """Run folder of a real node with a guard's journal that the test writes."""

    folder: Path
    context: RunContext
    guard: RecordJournalWriter
    decisions: list[Decision] = field(default_factory=list)

    @classmethod
    def begin(cls, folder: Path, *, simulated: bool = False, **sections: Any) -> "Run":
        for name, text in (("scontrol", SCONTROL), ("program", PROGRAM)):
            (folder / name).write_text(text.format(folder=folder))
            (folder / name).chmod(0o755)
        config = {
            "data_dir": str(folder / "data"),
            "node": {"name": "box"},
            "actuators": {
                "drain": ["slurm"],
                "slurm": {"node": "box", "folder": str(folder)},
                "hooks": {"tell": {"command": [str(folder / "program")], "timeout": "60s"}},
                "checkpoints": {"train": {"file": str(folder / "asked")}},
            },
            **sections,
        }
        (folder / "run").mkdir()
        context = RunContext(
            run_dir=folder / "run",
            config_json=json.dumps(config),
            driver=DriverKind.NONE,
            source="test",
            simulated=simulated,
            started_ns=SystemClock().utc_ns(),
        )
        context.save()
        context.keep_journal_starts({})
        return cls(folder=folder, context=context, guard=context.journal_writer("guard"))

    def restart(self) -> None:
        """Make the next process belong to another run."""
        reader = self.context.journal_reader("guard")
        reader.skip_to_end()
        self.context = replace(self.context, started_ns=SystemClock().utc_ns())
        self.context.save()
        self.context.keep_journal_starts({"guard": reader.position})

    def decide(self, action: str, *, incident: str, **parameters: str) -> Decision:
        made = Decision(
            id=f"policy:{incident}:{len(self.decisions)}",
            time_ns=SystemClock().utc_ns(),
            rule="policy",
            incident_id=incident,
            action=action,
            targets=("node:box",),
            lease_s=None,
            mode=Mode.ENFORCE,
            verdict=Verdict.EXECUTE,
            reason="the rail sags",
            parameters=tuple(parameters.items()),
        )
        self.decisions.append(made)
        self.guard.append(made)
        return made

    @contextmanager
    def processes(self) -> Iterator["Processes"]:
        """Return the starter of responders over this folder, one after the other."""
        made = Processes(_beginner(), self.context.run_dir)
        try:
            yield made
        finally:
            made.kill()

    @contextmanager
    def process(self) -> Iterator["Processes"]:
        """Run one responder until the block ends; kill it then if it still runs."""
        with self.processes() as made:
            made.start()
            yield made

    def until_done(self, child: "Processes") -> None:
        """Wait until no order is pending, and stop the responder cleanly."""
        self.context.responder_status_path.unlink(missing_ok=True)
        self.until(self._is_done)
        assert child.end() == 0

    def until(self, is_so: Callable[[], bool]) -> None:
        """Poll ten times a second until the condition is true."""
        clock = SystemClock()
        end_s = clock.monotonic_s() + PATIENCE_S
        while not is_so():
            assert clock.monotonic_s() < end_s, read_status(self.context.responder_status_path)
            clock.sleep_until(clock.monotonic_s() + 0.1)

    def _is_done(self) -> bool:
        reported = {action.decision_id for action in self.reported()}
        return reported >= {decision.id for decision in self.decisions if decision.action != "drain_release"} and (
            read_status(self.context.responder_status_path).get("waiting") == 0
        )

    def until_quiet(self) -> None:
        """Wait until the children of a killed process have ended."""
        a_moment(0.1)  # one that is being started shows its program only then
        wait_for(lambda: not any(str(self.folder / "scontrol") in expected for expected in _command_lines()))

    def reported(self) -> list[Action]:
        """Return the records that the responder published, each once."""
        reported = [one for one in self.context.journal_reader("responder").read() if isinstance(one, Action)]
        return list({(one.id, one.time_ns, one.state): one for one in reported}.values())

    def ran(self) -> list[str]:
        """Return the tokens with which the program ran."""
        path = self.folder / "ran"
        return path.read_text().split() if path.exists() else []

    def is_drained(self) -> bool:
        path = self.folder / "node"
        return path.exists() and "DRAIN" in path.read_text()

    def holds(self) -> tuple[HeldSwitch, ...]:
        """Return what is held according to the journal; no responder may run."""
        journal = WorkQueue(responder_folder(self.context.config, simulated=self.context.simulated))
        held = journal.holds("slurm_drain")
        journal.close()
        return held


def _command_lines() -> Iterator[list[str]]:
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            yield process.cmdline()


def token_for(decision: Decision) -> str:
    """Return the token with which the program is run for a decision."""
    return token_of("hook", "send", decision.id)


def a_moment(seconds: float) -> None:
    clock = SystemClock()
    clock.sleep_until(clock.monotonic_s() + seconds)
