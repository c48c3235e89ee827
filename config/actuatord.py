"""What the privileged actuator may do, in a file of its own: nothing that does not stand there."""

import grp
import pwd
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from agent.actuation.access import Access
from agent.actuation.limits import DEFAULT_LIMITS, ActuatorSettings, KnobLimits, UnreadableClocks
from agent.actuation.protocol import LEASE_MAX_S
from config.private_file import check_private_folder, read_private
from config.section import Section, at_least
from telemetry.documents import Lines, check_document, read_yaml
from telemetry.durations import DurationS
from telemetry.errors import Problem
from telemetry.knobs import KnobKind

DEFAULT_PATH = Path("/etc/railwatch/actuatord.yaml")
SAMPLE = "deploy/systemd/actuatord.yaml"


class _Range(Section):
    def bounds(self) -> tuple[float | None, float | None]:
        """Return the least and the most that is allowed."""
        lowest, highest = (getattr(self, name) for name in type(self).model_fields)
        return lowest, highest

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        lowest, highest = self.bounds()
        if lowest is not None and highest is not None and lowest > highest:
            low_name, high_name = type(self).model_fields
            raise ValueError(f"{low_name} of at most {high_name}, not {lowest:g} and {highest:g}")
        return self


class ClockRange(_Range):
    """The clocks to which a GPU may be capped."""

    min_mhz: float | None = Field(default=None, gt=0)
    max_mhz: float | None = Field(default=None, gt=0)


class PowerRange(_Range):
    """The power limits that a GPU may get."""

    min_w: float | None = Field(default=None, gt=0)
    max_w: float | None = Field(default=None, gt=0)


class FanRange(_Range):
    """The speeds at which a fan may be held, as shares of its fastest."""

    min_ratio: float | None = Field(default=None, gt=0, le=1)
    max_ratio: float | None = Field(default=None, gt=0, le=1)


class AllowedKnobs(Section):
    """The knobs that may be turned; one that is not named may not."""

    clock_cap: ClockRange | None = None
    power_cap: PowerRange | None = None
    fan: FanRange | None = None


class ActuatordConfig(Section):
    """The configuration of ``railwatch actuatord``.

    Attributes
    ----------
    group, users
        Who may ask, besides root. The group owns the socket.
    gpus
        The UUIDs of the GPUs that may be touched; none for all.
    longest_lease
        How long a cap may go on without anybody asking for it again.
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
    def _paths_are_whole(self) -> Self:
        for name, path in (("socket", self.socket), ("state_dir", self.state_dir)):
            if not path.is_absolute():
                raise ValueError(f"a path from the root as {name}")
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
    """Read the configuration of the privileged actuator, and who may ask it by the users and groups of this machine.

    Raises
    ------
    ConfigError
        Others could write it, its state or its socket; it does not fit; it names somebody unknown here.
    """
    data, lines = read_yaml(read_private(path, sample=SAMPLE), where=str(path))
    access, unknown = _access(data, path, lines)
    config = check_document(ActuatordConfig, data, where=str(path), lines=lines, known=unknown)
    # Its journal says what is written at the next start, and its socket gets an owner and permissions by its path.
    check_private_folder(path, "state_dir", config.state_dir)
    check_private_folder(path, "socket", config.socket.parent)
    return config, access


def _access(data: Any, path: Path, lines: Lines) -> tuple[Access, list[Problem]]:
    """Look up whom plain data name, and give what is unknown; what does not fit the model is the model's to tell."""
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
