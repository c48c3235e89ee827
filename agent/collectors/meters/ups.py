"""Collector and event source of UPSs, through NUT's upsd."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntFlag

import numpy as np

from agent.collectors.meters.nut import NutClient, SilentUpsError
from agent.collectors.meters.settings import UpsdSettings
from telemetry.clock import Clock
from telemetry.entities import Entity, EntityKind
from telemetry.errors import RailwatchError, TransientError
from telemetry.frames import FloatArray, TableSpec
from telemetry.records import Event, EventKind, Severity
from telemetry.signals import RateClass
from telemetry.signals import signal as catalogued

logger = logging.getLogger(__name__)

_PERCENT = 0.01
# NUT, "NUT command and variable naming scheme": variables, with the factor to the signal's unit.
_VARIABLES = {
    "ups_input_voltage_v": ("input.voltage", 1.0),
    "ups_output_voltage_v": ("output.voltage", 1.0),
    "ups_load_ratio": ("ups.load", _PERCENT),
    "ups_power_w": ("ups.realpower", 1.0),
    "ups_battery_ratio": ("battery.charge", _PERCENT),
    "ups_runtime_s": ("battery.runtime", 1.0),
}
_STATUS = "ups_status"
UPS_SIGNALS = (*_VARIABLES, _STATUS)
_SIGNALS = tuple(catalogued(EntityKind.SUPPLY, name) for name in UPS_SIGNALS)
# Status of a UPS whose driver has sent no data yet (upsd.c of NUT 2.8).
_NOT_YET = "WAIT"
# upsd has fresh data every two seconds where the driver's pollinterval is at its default (ups.conf(5)).
_POLL_EVERY_S = 2.0


class UpsFlag(IntFlag):
    """Flags of ``ups.status`` (NUT Developer Guide, "Status data"); their numbers are stored, so never change them."""

    ON_LINE = 1
    ON_BATTERY = 2
    LOW_BATTERY = 4
    REPLACE_BATTERY = 8
    CHARGING = 16
    DISCHARGING = 32
    BYPASS = 64
    CALIBRATING = 128
    OFF = 256
    OVERLOADED = 512
    TRIMMING = 1024
    BOOSTING = 2048
    FORCED_SHUTDOWN = 4096


_FLAGS = {
    "OL": UpsFlag.ON_LINE,
    "OB": UpsFlag.ON_BATTERY,
    "LB": UpsFlag.LOW_BATTERY,
    "RB": UpsFlag.REPLACE_BATTERY,
    "CHRG": UpsFlag.CHARGING,
    "DISCHRG": UpsFlag.DISCHARGING,
    "BYPASS": UpsFlag.BYPASS,
    "CAL": UpsFlag.CALIBRATING,
    "OFF": UpsFlag.OFF,
    "OVER": UpsFlag.OVERLOADED,
    "TRIM": UpsFlag.TRIMMING,
    "BOOST": UpsFlag.BOOSTING,
    "FSD": UpsFlag.FORCED_SHUTDOWN,
}
# Reported when a state begins and when it ends, worst first. A calibration uses the battery on purpose.
_TRANSITIONS = (
    (UpsFlag.FORCED_SHUTDOWN, Severity.CRITICAL, "is shutting down its outputs", "is no longer shutting down"),
    (UpsFlag.OFF, Severity.CRITICAL, "is off: outputs without power", "is on again"),
    (UpsFlag.LOW_BATTERY, Severity.CRITICAL, "battery low", "battery charged again"),
    (UpsFlag.ON_BATTERY, Severity.CRITICAL, "is on battery: AC lost upstream", "is on line: AC is back"),
    (UpsFlag.OVERLOADED, Severity.WARNING, "is overloaded", "is no longer overloaded"),
    (UpsFlag.BYPASS, Severity.WARNING, "is bypassed: outputs not buffered", "is no longer bypassed"),
    (UpsFlag.REPLACE_BATTERY, Severity.WARNING, "battery needs replacement", "battery was replaced"),
)


def parse_status(text: str) -> UpsFlag:
    """Parse ``OB DISCHRG LB``; unknown flags are ignored. ValueError where no flag is known."""
    known = [_FLAGS[name] for name in text.split() if name in _FLAGS]
    if not known:
        raise ValueError(f"ups.status is {text!r}")
    flags = UpsFlag(0)
    for flag in known:
        flags |= flag
    return flags


def changes(before: UpsFlag, now: UpsFlag) -> tuple[tuple[Severity, str], ...]:
    """Return the changes as severity and text; a state that ends is info."""
    found: list[tuple[Severity, str]] = []
    for flag, severity, begins, ends in _TRANSITIONS:
        if flag in now and flag not in before:
            on_purpose = flag is UpsFlag.ON_BATTERY and UpsFlag.CALIBRATING in now
            found.append((Severity.INFO, "is calibrating: on battery on purpose") if on_purpose else (severity, begins))
        elif flag in before and flag not in now:
            found.append((Severity.INFO, ends))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundUpsd:
    """A server of NUT and its UPSs; `problem` is the reason where there is none."""

    settings: UpsdSettings
    upss: tuple[str, ...]
    problem: str = ""


def find_upss(settings: Sequence[UpsdSettings]) -> tuple[FoundUpsd, ...]:
    """Query every server once for its UPSs."""
    found = []
    for one in settings:
        client = NutClient(one)
        try:
            upss = client.list_upss()
        except RailwatchError as err:
            found.append(FoundUpsd(settings=one, upss=(), problem=str(err)))
        else:
            problem = "" if upss else f"upsd at {one.host}:{one.port} has no UPS"
            found.append(FoundUpsd(settings=one, upss=upss, problem=problem))
        finally:
            client.close()
    return tuple(found)


def _key(settings: UpsdSettings, ups: str) -> str:
    """Return the key of a UPS as NUT's own programs write it, with the port where it is not the default."""
    port = "" if settings.port == UpsdSettings().port else f":{settings.port}"
    return f"{ups}@{settings.host}{port}"


class Ups:
    """The UPSs that the servers had at start. One without data is a row of NaN."""

    name = "ups"
    rate = RateClass.RARE

    def __init__(self, servers: Sequence[FoundUpsd]) -> None:
        self._clients = tuple((NutClient(one.settings), one.upss) for one in servers if one.upss)
        keys = [_key(one.settings, ups) for one in servers for ups in one.upss]
        entities = tuple(Entity(kind=EntityKind.SUPPLY, key=key, name=key, tags=(("ups", key),)) for key in keys)
        self.spec = TableSpec(name=self.name, kind=EntityKind.SUPPLY, entities=entities, signals=UPS_SIGNALS)
        self._logged: set[tuple[int, str]] = set()
        self.refused = 0

    def open(self) -> None:
        """Do nothing: the first request connects."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_upss, 7)``; a server that does not respond costs its time-out once.

        TransientError where no UPS has any data.
        """
        values.fill(np.nan)
        problems: list[str] = []
        first = 0
        for client, upss in self._clients:
            try:
                for row, ups in enumerate(upss, start=first):
                    problem = self._read_one(client, ups, row, values)
                    problems += [problem] if problem else []
            except RailwatchError as err:
                problems.append(str(err))
            first += len(upss)
        if np.isnan(values).all():
            raise TransientError("; ".join(dict.fromkeys(problems)) or "no UPS has any value")

    def close(self) -> None:
        """Close the connections; closing twice is harmless."""
        for client, _ in self._clients:
            client.close()

    def _read_one(self, client: NutClient, ups: str, row: int, values: FloatArray) -> str:
        """Read one UPS; return the reason where it has no data, an empty text on success."""
        try:
            found = client.variables(ups)
        except SilentUpsError as err:
            return f"{ups}: {err}"
        self._fill(row, found, values)
        return ""

    def _fill(self, row: int, found: Mapping[str, str], values: FloatArray) -> None:
        for column, signal in enumerate(_SIGNALS):
            name, factor = _VARIABLES.get(signal.name, ("ups.status", 1.0))
            text = found.get(name)
            if text is None or text == _NOT_YET:
                continue
            try:
                number = float(parse_status(text)) if signal.name == _STATUS else float(text) * factor
                if not math.isfinite(number) or not signal.is_plausible(number):
                    raise ValueError(f"{text!r} is not a plausible {signal.name}")  # noqa: TRY301 -- as other text
                values[row, column] = number
            except ValueError as err:
                self.refused += 1
                if (row, name) not in self._logged:
                    self._logged.add((row, name))
                    logger.warning("%s: ignoring %s: %s", self.spec.entities[row].key, name, err)


class UpsEvents:
    """An event source: a UPS goes on battery and back, runs low, is overloaded, bypassed or off."""

    name = "ups_events"

    def __init__(self, settings: Sequence[UpsdSettings], *, clock: Clock) -> None:
        self._servers = tuple((one, NutClient(one)) for one in settings)
        self._clock = clock
        self._last: dict[str, UpsFlag] = {}
        self._unreachable: set[UpsdSettings] = set()
        self._next_s = 0.0

    def open(self) -> None:
        """Do nothing: the first request connects."""

    def poll(self, timeout_s: float) -> tuple[Event, ...]:
        """Poll every two seconds; return what changed. A UPS that is on battery at the first poll is reported too.

        TransientError where no server responds.
        """
        now_s = self._clock.monotonic_s()
        if now_s < self._next_s:
            self._clock.sleep_until(min(self._next_s, now_s + timeout_s))
            return ()
        self._next_s = now_s + _POLL_EVERY_S
        events: list[Event] = []
        problem = ""
        for settings, client in self._servers:
            try:
                self._poll_server(settings, client, events)
            except RailwatchError as err:
                problem = str(err)
                if settings not in self._unreachable:
                    logger.warning("cannot poll UPS states, will retry: %s", problem)
                self._unreachable.add(settings)
            else:
                self._unreachable.discard(settings)
        if len(self._unreachable) == len(self._servers) and not events:
            raise TransientError(problem)
        return tuple(events)

    def close(self) -> None:
        """Close the connections; closing twice is harmless."""
        for _, client in self._servers:
            client.close()

    def _poll_server(self, settings: UpsdSettings, client: NutClient, events: list[Event]) -> None:
        """Append changes to `events`; changes seen before a failure stay in it, since each is reported only once."""
        for ups in client.list_upss():
            try:
                flags = parse_status(client.variables(ups).get("ups.status", ""))
            except (SilentUpsError, ValueError):
                continue  # no state now; a change is reported once it is back
            events += self._changes(_key(settings, ups), flags)

    def _changes(self, key: str, flags: UpsFlag) -> list[Event]:
        before, self._last[key] = self._last.get(key, UpsFlag.ON_LINE), flags
        time_ns = self._clock.utc_ns()
        return [
            Event(
                id=f"ups:{key}:{int(before)}-{int(flags)}:{number}:{time_ns}",
                time_ns=time_ns,
                kind=EventKind.POWER,
                entity_id=f"supply:{key}",
                code=None,
                severity=severity,
                message=f"UPS {key} {text}",
                sources=("nut",),
            )
            for number, (severity, text) in enumerate(changes(before, flags))
        ]
