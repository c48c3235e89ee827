"""What people say to a fleet service: a journal that commands append to and the service follows, running or not."""

import getpass
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from telemetry.clock import Clock
from telemetry.journal import JournalReader, JournalWriter, Position
from telemetry.records import Event, EventKind, Severity

_FILE = Path("journal", "person.jsonl")


class Said(StrEnum):
    """What can be said."""

    RESET = "reset-breaker"
    APPROVE = "approve"
    REJECT = "reject"


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonWord:
    """One thing that a person said: about what, why, who and when."""

    said: Said
    about: str
    event: Event


def say(data_dir: Path, said: Said, *, about: str, reason: str, clock: Clock) -> Event:
    """Write down what a person says; EnvironmentLacksError where the folder cannot be written."""
    now_ns = clock.utc_ns()
    who = getpass.getuser()
    event = Event(
        id=f"person:{said}:{now_ns}",
        time_ns=now_ns,
        kind=EventKind.APPROVAL,
        entity_id=None,
        code=None,
        severity=Severity.INFO,
        message=f"{said} {about or '-'}: {reason}",
        sources=(who,),
    )
    journal = JournalWriter(data_dir / _FILE)
    journal.append(event)
    journal.close()
    return event


class PersonWords:
    """Follows what people say, from where it was followed last."""

    def __init__(self, data_dir: Path, position: Position) -> None:
        self._journal = JournalReader(data_dir / _FILE, position or None)

    @property
    def position(self) -> Position:
        """Up to where it was followed."""
        return self._journal.position

    def read(self) -> tuple[PersonWord, ...]:
        """Return what was said since."""
        return tuple(word for record in self._journal.read() if isinstance(record, Event) and (word := _word(record)))


def _word(event: Event) -> PersonWord | None:
    said, _, rest = event.message.partition(" ")
    about = rest.partition(": ")[0]
    try:
        return PersonWord(said=Said(said), about=about, event=event)
    except ValueError:
        return None
