"""Debian's real upsd with NUT's dummy-ups driver, on a free loopback port."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent.collectors.meters.settings import UpsdSettings
from tests.services import free_port, require

# Debian keeps the server and its drivers out of PATH; the one in /usr/sbin is a script that wants a configured system.
_FOLDERS = "/lib/nut:/usr/lib/nut"
_START_LIMIT_S = 60.0
HEALTHY = {
    "ups.status": "OL CHRG",
    "input.voltage": "230.5",
    "output.voltage": "229.9",
    "ups.load": "42",
    "ups.realpower": "1260",
    "battery.charge": "97",
    "battery.runtime": "840",
}


@dataclass(slots=True, kw_only=True)
class Upsd:
    """The server and the driver of one UPS, called rack."""

    folder: Path
    port: int
    driver: subprocess.Popen[bytes]
    server: subprocess.Popen[bytes] | None = None

    @property
    def settings(self) -> UpsdSettings:
        return UpsdSettings(port=self.port, timeout_s=1.0)

    def show(self, variables: dict[str, str]) -> None:
        """Change the variables of the UPS; the driver reads them again within two seconds."""
        fresh = self.folder / "rack.new"
        fresh.write_text("".join(f"{name}: {value}\n" for name, value in variables.items()))
        fresh.replace(self.folder / "rack.dev")

    def start_server(self) -> None:
        self.server = _start(self.folder, "upsd", "-F", "-u", "root")
        for _ in range(int(_START_LIMIT_S / 0.05)):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0) as probe:
                probe.sendall(b"GET VAR rack input.voltage\n")
                if b"VAR rack" in probe.recv(100):
                    return
            assert self.server.poll() is None, "upsd ended"
            threading.Event().wait(0.05)
        raise AssertionError("upsd does not know its UPS")

    def end_server(self) -> None:
        if self.server is not None:
            _end(self.server)
            self.server = None


@contextlib.contextmanager
def upsd() -> Iterator[Upsd]:
    with tempfile.TemporaryDirectory(prefix="nut-") as made:  # the driver's socket wants a short path
        folder, port = Path(made), free_port()
        for name, text in {
            "ups.conf": f"[rack]\ndriver = dummy-ups\nport = {folder}/rack.dev\nmode = dummy-loop\npollinterval = 1\n",
            "upsd.conf": f"LISTEN 127.0.0.1 {port}\nMAXAGE 3\nSTATEPATH {folder}\n",
            "upsd.users": "",
        }.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o640)
        (folder / "rack.dev").write_text("".join(f"{name}: {value}\n" for name, value in HEALTHY.items()))
        server = Upsd(folder=folder, port=port, driver=_start(folder, "dummy-ups", "-a", "rack", "-u", "root", "-F"))
        try:
            server.start_server()
            yield server
        finally:
            server.end_server()
            server.driver.send_signal(signal.SIGCONT)
            _end(server.driver)


def _start(folder: Path, program: str, *arguments: str) -> subprocess.Popen[bytes]:
    path = shutil.which(program, path=_FOLDERS) or require(program)
    paths = {name: str(folder) for name in ("NUT_CONFPATH", "NUT_STATEPATH", "NUT_ALTPIDPATH", "NUT_PIDPATH")}
    log = (folder / f"{program}.log").open("wb")
    with log:
        return subprocess.Popen([path, *arguments], stdout=log, stderr=log, env=os.environ | paths)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
