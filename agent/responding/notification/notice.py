"""Message about one incident, in the form in which it is queued and sent."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter

from telemetry.clock import iso_utc
from telemetry.records import Severity


class NoticeKind(StrEnum):
    """Reason of a message."""

    OPENED = "opened"
    WORSE = "worse"
    RECOVERED = "recovered"
    TEST = "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Message about one incident.

    `token` is the same if the message is sent again. `entity_id` and `cause` are those of the first message about the
    incident, so that a receiver can match the recovery. `previous` is the severity before a rise, else None.
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
        """True if it reports that the incident is over."""
        return self.kind is NoticeKind.RECOVERED

    def fields(self) -> dict[str, Any]:
        """Return the message as JSON types."""
        return {**asdict(self), "time": iso_utc(self.time_ns), "opened": iso_utc(self.opened_ns)}


_ADAPTER = TypeAdapter(Notice)


def notice_to_json(notice: Notice) -> str:
    """Return a message as one line of JSON."""
    return _ADAPTER.dump_json(notice).decode()


def notice_from_json(text: str) -> Notice:
    """Read the output of `notice_to_json`."""
    return _ADAPTER.validate_json(text)
