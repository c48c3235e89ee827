"""Debian's real snmpd on a free loopback port, serving the objects of a PDU."""

import contextlib
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.services import free_port, require

AUTH_PASSWORD, PRIVACY_PASSWORD = "how-it-is-known", "how-it-is-hidden"
_START_LIMIT_S = 60.0
_CONFIG = f"""\
agentaddress udp:127.0.0.1:{{port}}
rocommunity public 127.0.0.1
createUser reader SHA "{AUTH_PASSWORD}" AES "{PRIVACY_PASSWORD}"
rouser reader priv
"""


@dataclass(slots=True)
class Snmpd:
    """The agent; `serve` restarts it with other values."""

    port: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    def serve(self, objects: dict[str, int | str]) -> None:
        self.end()
        config = self.folder / "snmpd.conf"
        overrides = [
            f"override .{oid} {'integer' if isinstance(value, int) else 'octet_str'} {_text(value)}"
            for oid, value in objects.items()
        ]
        config.write_text("\n".join([_CONFIG.format(port=self.port), *overrides, ""]))
        # The address is announced once the socket is bound; nothing else is logged there before.
        self.process = subprocess.Popen(
            [require("snmpd"), "-f", "-C", "-c", str(config), "-Lo", "-I", "-smux", "-p", str(self.folder / "pid")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | {"SNMP_PERSISTENT_DIR": str(self.folder), "MIBS": ""},
        )
        assert self.process.stdout is not None
        timer = threading.Timer(_START_LIMIT_S, self.process.kill)
        timer.start()
        messages = b""
        for line in self.process.stdout:
            messages += line
            if re.match(rb"NET-SNMP version", line):
                break
        else:
            raise AssertionError(f"snmpd did not start: {messages!r}")
        timer.cancel()

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            if self.process.stdout is not None:
                self.process.stdout.close()
            self.process = None


@contextlib.contextmanager
def snmpd(folder: Path, objects: dict[str, int | str]) -> Iterator[Snmpd]:
    folder.mkdir(exist_ok=True)
    agent = Snmpd(port=free_port(), folder=folder)
    try:
        agent.serve(objects)
        yield agent
    finally:
        agent.end()


def _text(value: int | str) -> str:
    return str(value) if isinstance(value, int) else f'"{value}"'
