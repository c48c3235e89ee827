"""An IPMI controller on loopback: Debian's ``ipmi_sim`` with the node's sensors.

The program looks at a file per sensor many times a second, so that a reading changes by writing a file; thresholds and
the event log are its own. Its files are described in ipmi_lan(5) and ipmi_sim_cmd(5).
"""

import contextlib
import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from simulator.served.board.sdr import OWNER, TYPE_CODES, event_bits, full_record, reading_type, threshold_bytes
from simulator.served.board.sensors import BUS_FATAL, PRESENT, BoardSensor, SensorQuantity
from telemetry.atomic_files import replace_file
from telemetry.errors import EnvironmentLacksError

PROGRAM = "ipmi_sim"
USER, PASSWORD = "admin", "railwatch"
# RMCP+ with HMAC-SHA1 and AES; ipmi_sim does not know the suite 17 that ipmitool takes by itself.
CIPHER_SUITE = 3
_POLL_MS = 50
_LOG_ENTRIES = 1000
_DIGITS = 5  # every value is written in as many bytes, so one write replaces it whole
_END_S = 3.0
# Get Channel Authentication Capabilities, channel 14, privilege 4, outside any session: IPMI 2.0 sections 13.6, 22.13.
_CAPABILITIES = bytes.fromhex("0600ff07000000000000000000092018c88100380e0435")
_PAUSE_S, _TRIES = 0.05, 100
_AUTHENTICATION = "none md2 md5 straight"
# Asked with "get power" it answers; asked to "set" anything it fails, since nothing here can be switched.
_CHASSIS_SCRIPT = 'test "$1 $2" = "get power" && cat power\n'


class IpmiController:
    """Running ``ipmi_sim``.

    Parameters
    ----------
    folder
        Where its files lie; made anew.
    first
        The sensors' bytes at the start, so that nothing looks as if it had just changed.
    port
        UDP port on loopback; 0 takes a free one.

    Raises
    ------
    EnvironmentLacksError
        The program is not installed, the port is taken, or it ended at once.
    """

    def __init__(
        self,
        folder: Path,
        sensors: Sequence[BoardSensor],
        *,
        first: Mapping[int, int | None],
        name: str,
        port: int = 0,
    ) -> None:
        program = shutil.which(PROGRAM)
        if program is None:
            raise EnvironmentLacksError(f"{PROGRAM} is not installed; apt-get install openipmi")
        self.port = _claimed(port)
        self._interrupt = next((s.number for s in sensors if s.kind is SensorQuantity.CRITICAL_INTERRUPT), None)
        self._files: dict[int, int] = {}
        self._values = {sensor.number: folder / f"sensor{sensor.number}" for sensor in sensors}
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "state").mkdir(parents=True)
        for number, path in self._values.items():
            path.write_text(f"{first.get(number) or 0:<{_DIGITS}d}\n", encoding="ascii")
        (folder / "chassis.sh").write_text(_CHASSIS_SCRIPT, encoding="ascii")
        self._power = folder / "power"
        self.switch(on=True)
        (folder / "lan.conf").write_text(_lan_conf(name, self.port), encoding="ascii")
        (folder / "sim.emu").write_text(_commands(sensors, self._values), encoding="ascii")
        self._process = _start(program, folder)
        self._await_answer(folder / "log")

    def _await_answer(self, log: Path) -> None:
        """Return once it answers a request that needs no session."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            asker.connect(("127.0.0.1", self.port))
            asker.settimeout(_PAUSE_S)
            for _ in range(_TRIES):
                with contextlib.suppress(OSError):
                    asker.send(_CAPABILITIES)
                    if asker.recv(512):
                        return
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_PAUSE_S)
                    break
        self.close()
        output = log.read_text(encoding="utf-8", errors="replace").strip().replace("\n", "; ")
        raise EnvironmentLacksError(f"{PROGRAM} does not answer on UDP port {self.port}: {output or 'no reason given'}")

    @property
    def pid(self) -> int:
        """Return the process."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """True if it still runs."""
        return self._process.poll() is None

    def show(self, raw: Mapping[int, int | None]) -> None:
        """Show the sensors' bytes by number; a sensor without a reading keeps the last one."""
        for number, value in raw.items():
            if value is not None:
                self._write(number, value)

    def switch(self, *, on: bool) -> None:
        """Show whether the node is switched on."""
        replace_file(self._power, f"power:{int(on)}\n".encode(), synced=False)

    def interrupt(self, *, on: bool) -> None:
        """Raise or drop the critical interrupt; when it comes up the controller logs it."""
        if self._interrupt is not None:
            self._write(self._interrupt, BUS_FATAL if on else 0)

    def close(self) -> None:
        """Stop the program and wait for it."""
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for descriptor in self._files.values():
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._files.clear()

    def _write(self, number: int, value: int) -> None:
        descriptor = self._files.get(number)
        if descriptor is None:
            descriptor = self._files[number] = os.open(self._values[number], os.O_WRONLY | os.O_CLOEXEC)
        os.pwrite(descriptor, f"{value:<{_DIGITS}d}\n".encode(), 0)


def _start(program: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start the program on the files of a folder; its output goes into ``log`` there."""
    # It would outlive us if we were killed; setpriv of util-linux ends it then.
    guard = () if (setpriv := shutil.which("setpriv")) is None else (setpriv, "--pdeathsig", "TERM", "--")
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [*guard, program, "-c", folder / "lan.conf", "-f", folder / "sim.emu", "-s", folder / "state", "-n"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,  # Ctrl-C is for us; we then end it
        )


def _claimed(port: int) -> int:
    """Return a free UDP port of loopback, or this one if it is free."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as err:
            raise EnvironmentLacksError(f"UDP port {port} of 127.0.0.1: {err.strerror}") from err
        taken: int = probe.getsockname()[1]
        return taken


def _lan_conf(name: str, port: int) -> str:
    kinds = ("callback", "user", "operator", "admin")
    lines = [
        f'name "{name}"',
        f"set_working_mc {OWNER:#x}",
        "startlan 1",
        f"addr 127.0.0.1 {port}",
        "priv_limit admin",
        *(f"allowed_auths_{kind} {_AUTHENTICATION}" for kind in kinds),
        f"guid {uuid.uuid5(uuid.NAMESPACE_DNS, name).hex}",
        "endlan",
        'chassis_control "sh ./chassis.sh"',
        f'user 2 true "{USER}" "{PASSWORD}" admin 10 {_AUTHENTICATION}',
    ]
    return "\n".join([*lines, ""])


def _commands(sensors: Sequence[BoardSensor], values: Mapping[int, Path]) -> str:
    lines = [
        f"mc_setbmc {OWNER:#x}",
        # Device 0, no device records, and the capabilities of a controller with sensors, records and an event log.
        f"mc_add {OWNER:#x} 0 no-device-sdrs 0x1 1 0 0x87 0 0",
        f"sel_enable {OWNER:#x} {_LOG_ENTRIES} 0x02",
    ]
    for sensor in sensors:
        lines += _sensor_commands(sensor, values[sensor.number])
    return "\n".join([*lines, f"mc_enable {OWNER:#x}", ""])


def _sensor_commands(sensor: BoardSensor, path: Path) -> list[str]:
    place = f"{OWNER:#x} 0 {sensor.number}"
    kinds = f"{TYPE_CODES[sensor.kind]:#x} {reading_type(sensor):#x}"
    lines = [f'sensor_add {place} {kinds} poll {_POLL_MS} file "{path}" base=10']
    events = event_bits(sensor)
    if sensor.scale is not None:
        present, raw = threshold_bytes(sensor)
        values = " ".join(str(value) for value in reversed(raw))
        lines.append(f"sensor_set_threshold {place} readable {present:06b} {values}")
    if sensor.kind is SensorQuantity.SUPPLY_STATUS:
        events &= ~PRESENT  # that a supply sits in its slot is a state and no news
    asserted = f"{events:015b}"
    # A critical interrupt is one event; all others also report their end.
    over = f"{0 if sensor.kind is SensorQuantity.CRITICAL_INTERRUPT else events:015b}"
    lines.append(f"sensor_set_event_support {place} enable scanning per-state {asserted} {over} {asserted} {over}")
    record = " ".join(f"{byte:#04x}" for byte in full_record(sensor))
    return [*lines, f"main_sdr_add {OWNER:#x} {record}"]
