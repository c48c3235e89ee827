"""What is said of one incident at one moment, in the form in which it waits and travels."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter

from telemetry.clock import iso_utc
from telemetry.records import Severity


class NoticeKind(StrEnum):
    """Why something is said."""

    OPENED = "opened"
    WORSE = "worse"
    RECOVERED = "recovered"
    TEST = "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One thing to say.

    `token` is the same whenever the same thing is said again. `entity_id` and `cause` are those under which the
    incident was first told, so that a recovery is known for what it is. `previous` is the severity told before, where
    it has risen.
    """

    token: str
    kind: NoticeKind
    time_ns: int
    node: str
    incident_id: str
    cause: str
    entity_id: str
    severity: Severity
    previous: Severity | None
    opened_ns: int
    title: str
    summary: str
    text: str
    link: str
    simulated: bool
    numbers: tuple[tuple[str, float, str], ...]

    @property
    def over(self) -> bool:
        """Whether it says that the trouble is over."""
        return self.kind is NoticeKind.RECOVERED

    def fields(self) -> dict[str, Any]:
        """Return it as JSON types."""
        return {**asdict(self), "time": iso_utc(self.time_ns), "opened": iso_utc(self.opened_ns)}


_ADAPTER = TypeAdapter(Notice)


def notice_to_json(notice: Notice) -> str:
    """Return a notice as one line of JSON."""
    return _ADAPTER.dump_json(notice).decode()


def notice_from_json(text: str) -> Notice:
    """Read what `notice_to_json` gave."""
    return _ADAPTER.validate_json(text)
