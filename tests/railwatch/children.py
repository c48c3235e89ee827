"""Processes for a supervisor: `CHILD` in their environment selects how they behave. Run as a module."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from railwatch.launcher import Launcher
from railwatch.processes.child import Ready, run_child
from railwatch.run_context import DriverKind, RunContext
from railwatch.supervisor import ChildSpec, Supervisor
from telemetry.clock import SystemClock
from telemetry.errors import EnvironmentLacksError

MODULE = "tests.railwatch.children"
CLOCK = SystemClock()
ENDS_BY_ITSELF_S = 110.0


def nap(seconds: float) -> None:
    CLOCK.sleep_until(CLOCK.monotonic_s() + seconds)


def spec(how: str, *, name: str = "child", start_timeout_s: float = 60.0, stop_timeout_s: float = 60.0) -> ChildSpec:
    environ = os.environ | {"CHILD": how}
    return ChildSpec(
        name=name, module=MODULE, environ=environ, start_timeout_s=start_timeout_s, stop_timeout_s=stop_timeout_s
    )


def prepare(run_dir: Path) -> Path:
    """A run folder with its context."""
    config = json.dumps({"data_dir": str(run_dir)})
    RunContext(run_dir=run_dir, config_json=config, driver=DriverKind.NONE, source="test", simulated=True).save()
    return run_dir


def main(context: RunContext, stop: threading.Event, ready: Ready) -> None:
    (context.run_dir / "pids").open("a").write(f"{os.getpid()}\n")
    match os.environ["CHILD"]:
        case "fails":
            raise EnvironmentLacksError("there is no such thing here")
        case "dies":
            os._exit(7)
        case "silent":
            stop.wait(ENDS_BY_ITSELF_S)
        case "talks":
            os.write(1, b"hello\n")
            stop.wait(ENDS_BY_ITSELF_S)
        case "deaf":
            ready({"pid": os.getpid()})
            nap(ENDS_BY_ITSELF_S)
        case "leaves but cannot end":
            ready({"pid": os.getpid()})
            os.close(1)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            nap(ENDS_BY_ITSELF_S)
        case "leaves another that can speak":
            other = subprocess.Popen(["sleep", str(ENDS_BY_ITSELF_S)])
            ready({"pid": other.pid})
            stop.wait(ENDS_BY_ITSELF_S)
        case "leaves before it is ready":
            os.close(1)
            nap(ENDS_BY_ITSELF_S)
        case "dies when it is started again" if len((context.run_dir / "pids").read_text().split()) > 1:
            os._exit(7)
        case _:
            ready({"pid": os.getpid()})
            stop.wait(ENDS_BY_ITSELF_S)
            (context.run_dir / "ended").touch()


def supervise(run_dir: Path) -> None:
    """A supervisor process that a test kills."""
    facts = Supervisor(run_dir, CLOCK).start(spec("works"))
    sys.stdout.write(f"{facts['pid']}\n")
    sys.stdout.flush()
    nap(ENDS_BY_ITSELF_S)


def launch(run_dir: Path) -> None:
    """A process with a launcher, which a test kills."""
    launcher = Launcher.fork(())
    facts = Supervisor(run_dir, CLOCK, launcher).start(spec("works"))
    sys.stdout.write(f"{facts['pid']}\n")
    sys.stdout.flush()
    nap(ENDS_BY_ITSELF_S)


if __name__ == "__main__":
    if sys.argv[1] == "launch":
        launch(Path(sys.argv[2]))
    elif sys.argv[1] == "supervise":
        supervise(Path(sys.argv[2]))
    else:
        run_child(main)
