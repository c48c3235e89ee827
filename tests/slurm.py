"""A real Slurm of one node on free loopback ports: munged, slurmctld and slurmd, in a temporary directory."""

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.services import free_port, require

NODE = "gpu0"
START_LIMIT_S = 40.0
_POLL_S = 0.1
_CONFIG = """\
ClusterName=railwatch
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
AuthType=auth/munge
AuthInfo=socket={home}/munge/sock
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmUser=root
ReturnToService=1
MpiDefault=none
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool-%n
SlurmctldPidFile={home}/ctld.pid
SlurmdPidFile={home}/slurmd-%n.pid
SlurmctldLogFile={home}/ctld.log
SlurmdLogFile={home}/slurmd.log
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={node_port} CPUs=2 RealMemory=100
PartitionName=all Nodes={node} Default=YES State=UP
"""


@dataclass(slots=True)
class Slurm:
    """One running Slurm."""

    home: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def conf(self) -> str:
        return str(self.home / "slurm.conf")

    def start(self, name: str, *argv: str) -> None:
        with (self.home / f"{name}.out").open("ab") as sink:
            self.running[name] = subprocess.Popen(
                [require(argv[0]), *argv[1:]],
                env=self._environ(),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                cwd=self.home,
            )

    def start_controller(self) -> None:
        self.start("slurmctld", "slurmctld", "-D", "-i")

    def end(self, name: str) -> None:
        process = self.running.pop(name)
        process.terminate()
        try:
            process.wait(10.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def run(self, program: str, *arguments: str) -> str:
        """Run one of its programs and return its output, standard error included."""
        done = subprocess.run(
            [require(program), *arguments],
            env=self._environ(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            cwd=self.home,
        )
        return done.stdout.strip()

    def by_hand(self, *changes: str) -> None:
        """Change the node as an administrator does."""
        assert self.run("scontrol", "update", f"nodename={NODE}", *changes) == ""

    def node(self) -> str:
        """Return state and reason; a node that was just resumed does not respond for a moment, which is left out."""
        return self.run("sinfo", "-h", "-N", "-n", NODE, "-o", "%T %E").replace("* ", " ")

    def until(self, program: str, *arguments: str, shows: str) -> str:
        """Run until the output holds that text."""
        output = ""
        for _ in range(int(START_LIMIT_S / _POLL_S)):
            output = self.run(program, *arguments)
            if shows in output:
                return output
            threading.Event().wait(_POLL_S)
        raise AssertionError(f"{program} {arguments}: {output!r}, expected {shows!r}")

    def _environ(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": self.conf}


@contextlib.contextmanager
def slurm(home: Path) -> Iterator[Slurm]:
    """Run a Slurm of one node until the block ends; needs root, as slurmd does."""
    if os.geteuid() != 0:
        pytest.skip("slurmd needs root")
    for folder in ("state", "munge"):
        (home / folder).mkdir(parents=True)
    key = home / "munge" / "key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    made = Slurm(home=home)
    Path(made.conf).write_text(
        _CONFIG.format(
            home=home, host=socket.gethostname(), node=NODE, controller_port=free_port(), node_port=free_port()
        )
    )
    munge = [f"--{what}={home}/munge/{name}" for what, name in (("socket", "sock"), ("key-file", "key"))]
    munge += [f"--{what}={home}/munge/{what}" for what in ("pid-file", "log-file", "seed-file")]
    try:
        made.start("munged", "munged", "--foreground", "--force", *munge)
        for _ in range(100):
            if (home / "munge" / "sock").exists():
                break
            threading.Event().wait(_POLL_S)
        made.start_controller()
        made.start("slurmd", "slurmd", "-D", "-N", NODE)
        made.until("sinfo", "-h", "-N", "-o", "%T", shows="idle")
        yield made
    finally:
        for name in reversed(list(made.running)):
            made.end(name)
