"""Configuration file of the privileged actuator: an allow-list; what it does not name is refused."""

import grp
import os
import pwd
import stat
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from agent.actuation.access import Access
from agent.actuation.limits import DEFAULT_LIMITS, ActuatorSettings, KnobLimits, UnreadableClocks
from agent.actuation.protocol import LEASE_MAX_S
from config.section import Section, at_least
from telemetry.documents import Lines, check_document, decoded, read_yaml
from telemetry.durations import DurationS
from telemetry.errors import ConfigError, Problem
from telemetry.gpu import KnobKind
from telemetry.key_problems import KeyProblemError

DEFAULT_PATH = Path("/etc/railwatch/actuatord.yaml")
SAMPLE = "deploy/systemd/actuatord.yaml"


def read_private(path: Path, *, sample: str) -> str:
    """Return the text of a file that only this process's own user, or root, can change or replace.

    The file is owned by this user, its folders by this user or root, and no other user may write any of them. A folder
    further up may be open to others if it is sticky, as /tmp is. If there is no file, the error names `sample`.

    Raises
    ------
    ConfigError
        It cannot be read, or another user could have written it.
    """
    try:
        real = path.resolve(strict=True)
        with real.open("rb") as file:
            _check_file(path, os.fstat(file.fileno()))
            _check_folders(path, "(folder)", real.parent)
            return decoded(file.read(), where=str(path))
    except FileNotFoundError as err:
        raise ConfigError.at(
            path, "No such file or directory", f"a readable YAML file; copy {sample} to begin", key="(file)"
        ) from err
    except OSError as err:
        raise ConfigError.at(path, err.strerror or "cannot be read", "a readable YAML file", key="(file)") from err


def check_private_folder(path: Path, key: str, folder: Path) -> None:
    """Refuse a folder, named by a key of the file at `path`, whose content another user could replace.

    If it does not exist yet, the folders above it count.

    Raises
    ------
    ConfigError
        Another user could write there.
    """
    try:
        real = folder.resolve()
        _check_folders(path, key, next(one for one in (real, *real.parents) if one.exists()))
    except OSError as err:
        raise ConfigError.at(path, err.strerror or str(err), "a folder that can be looked into", key=key) from err


def _check_folders(path: Path, key: str, nearest: Path) -> None:
    for folder in (nearest, *nearest.parents):
        _check_folder(path, key, folder, nearest=folder == nearest)


def _check_file(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError.at(path, "no regular file", "a YAML file", key="(file)")
    if status.st_uid != os.geteuid():
        raise ConfigError.at(
            path, f"belongs to uid {status.st_uid}", f"the user who runs this, uid {os.geteuid()}", key="(owner)"
        )
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError.at(
            path, f"mode {stat.S_IMODE(status.st_mode):04o}", "writable by its owner alone", key="(mode)"
        )


def _check_folder(path: Path, key: str, folder: Path, *, nearest: bool) -> None:
    status = folder.stat()
    if status.st_uid not in (0, os.geteuid()):
        raise ConfigError.at(
            path, f"{folder} belongs to uid {status.st_uid}", "a folder of root or of this user", key=key
        )
    open_to_others = bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    kept = bool(status.st_mode & stat.S_ISVTX) and not nearest
    if open_to_others and not kept:
        found = f"{folder} has mode {stat.S_IMODE(status.st_mode):04o}"
        raise ConfigError.at(path, found, "a folder that its owner alone may write", key=key)


class _Range(Section):
    def bounds(self) -> tuple[float | None, float | None]:
        """Return the allowed minimum and maximum."""
        lowest, highest = (getattr(self, name) for name in type(self).model_fields)
        return lowest, highest

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        lowest, highest = self.bounds()
        if lowest is not None and highest is not None and lowest > highest:
            low_name, high_name = type(self).model_fields
            raise KeyProblemError(low_name, f"got {lowest:g}", f"at most {high_name}, which is {highest:g}")
        return self


class ClockRange(_Range):
    """Range of clock caps."""

    min_mhz: float | None = Field(default=None, gt=0)
    max_mhz: float | None = Field(default=None, gt=0)


class PowerRange(_Range):
    """Range of power limits."""

    min_w: float | None = Field(default=None, gt=0)
    max_w: float | None = Field(default=None, gt=0)


class FanRange(_Range):
    """Range of fan speeds, as shares of the highest."""

    min_ratio: float | None = Field(default=None, gt=0, le=1)
    max_ratio: float | None = Field(default=None, gt=0, le=1)


class AllowedKnobs(Section):
    """Settings that may be changed; one that is not named may not."""

    clock_cap: ClockRange | None = None
    power_cap: PowerRange | None = None
    fan: FanRange | None = None


class ActuatordConfig(Section):
    """The configuration of ``railwatch actuatord``.

    Attributes
    ----------
    group, users
        Who may send requests, besides root. The group owns the socket.
    gpus
        UUIDs of the GPUs that may be changed; unset: all.
    longest_lease
        Longest lease of a cap; it has to be renewed before.
    """

    socket: Path = Path("/run/railwatch/actuator.sock")
    group: str | None = Field(default=None, min_length=1)
    users: tuple[str, ...] = ()
    state_dir: Path = Path("/var/lib/railwatch-actuatord")
    gpus: tuple[str, ...] | None = Field(default=None, min_length=1)
    knobs: AllowedKnobs
    unreadable_clocks: UnreadableClocks = UnreadableClocks.REFUSE
    longest_lease: Annotated[DurationS, at_least(1, "1s"), Field(le=LEASE_MAX_S)] = 3600.0

    @model_validator(mode="after")
    def _paths_are_absolute(self) -> Self:
        for name, path in (("socket", self.socket), ("state_dir", self.state_dir)):
            if not path.is_absolute():
                raise KeyProblemError(name, f"got '{path}'", "an absolute path, from /")
        return self

    def settings(self) -> ActuatorSettings:
        """Return the limits of the actuator."""
        knobs: dict[KnobKind, KnobLimits] = {}
        for kind, limits in DEFAULT_LIMITS.items():
            allowed = getattr(self.knobs, kind.value)
            if allowed is not None:
                lowest, highest = allowed.bounds()
                knobs[kind] = replace(limits, lowest=lowest, highest=highest)
        return ActuatorSettings(
            knobs=knobs,
            gpus=None if self.gpus is None else frozenset(self.gpus),
            longest_lease_s=self.longest_lease,
            unreadable=self.unreadable_clocks,
        )


def load_actuatord(path: Path) -> tuple[ActuatordConfig, Access]:
    """Read the configuration of the privileged actuator, and look up its users and groups on this machine.

    Raises
    ------
    ConfigError
        Others could write the file, its state or its socket; it is invalid; it names an unknown user or group.
    """
    data, lines = read_yaml(read_private(path, sample=SAMPLE), where=str(path))
    access, unknown = _access(data, path, lines)
    config = check_document(ActuatordConfig, data, where=str(path), lines=lines, known=unknown)
    # The journal decides what is written at the next start; owner and permissions of the socket are set by its path.
    check_private_folder(path, "state_dir", config.state_dir)
    check_private_folder(path, "socket", config.socket.parent)
    return config, access


def _access(data: Any, path: Path, lines: Lines) -> tuple[Access, list[Problem]]:
    """Return the access of the users and the group that are named, and a problem for each that is unknown."""
    named = data if isinstance(data, dict) else {}
    users, group = named.get("users"), named.get("group")
    problems: list[Problem] = []
    uids: set[int] = set()
    for name in users if isinstance(users, list) else ():
        try:
            uids.add(pwd.getpwnam(str(name)).pw_uid)
        except (KeyError, ValueError):
            problems.append(_unknown(path, "users", name, "users of this machine", lines))
    gid = None
    if isinstance(group, str) and group:
        try:
            gid = grp.getgrnam(group).gr_gid
        except (KeyError, ValueError):
            problems.append(_unknown(path, "group", group, "a group of this machine", lines))
    return Access(gid=gid, uids=frozenset(uids)), problems


def _unknown(path: Path, key: str, name: object, expected: str, lines: Lines) -> Problem:
    return Problem(where=str(path), line=lines.get((key,)), key=key, found=f"got {name!r}", expected=expected)
