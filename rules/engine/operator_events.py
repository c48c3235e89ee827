"""What people say to the rules, as events: yes, no, go on, and whether a decision was right."""

from dataclasses import dataclass
from enum import StrEnum

from telemetry.records import Event, EventKind, Severity

# heuristic: a name and a reason that a person types; more is no reason but a flood.
WHO_MAX, WHY_MAX = 100, 1000


class Say(StrEnum):
    """What is said. `agree` and `disagree` judge a decision that was only told, and change nothing."""

    APPROVE = "approve"
    REJECT = "reject"
    RESET_BREAKER = "reset_breaker"
    AGREE = "agree"
    DISAGREE = "disagree"


_SAID = {
    Say.APPROVE: "approved",
    Say.REJECT: "rejected",
    Say.RESET_BREAKER: "breaker reset",
    Say.AGREE: "agreed with",
    Say.DISAGREE: "disagreed with",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One word of one person; `decision_id` is empty where it is about the breaker."""

    say: Say
    decision_id: str
    who: str
    why: str

    @property
    def sentence(self) -> str:
        """The whole of it."""
        about = f"{self.decision_id} " if self.decision_id else ""
        return f"{about}{_SAID[self.say]} by {self.who}" + (f": {self.why}" if self.why else "")


def event_of(word: Word, now_ns: int) -> Event:
    """Return the event that carries a word; ValueError where nobody says it or it has no end."""
    if not word.who.strip() or len(word.who) > WHO_MAX or len(word.why) > WHY_MAX:
        raise ValueError(f"who, of at most {WHO_MAX} characters, and why, of at most {WHY_MAX}")
    return Event(
        id=f"approval/{word.say.value}/{word.decision_id}/{now_ns}",
        time_ns=now_ns,
        kind=EventKind.APPROVAL,
        entity_id=None,
        code=None,
        severity=Severity.INFO,
        message=word.sentence,
        sources=("person", word.who),
    )


def word_of(event: Event) -> Word | None:
    """Read a word out of its event; None where it carries none."""
    parts = event.id.split("/")
    if event.kind is not EventKind.APPROVAL or len(parts) != 4 or len(event.sources) != 2:
        return None
    if parts[1] not in {say.value for say in Say}:
        return None
    who = event.sources[1]
    word = Word(say=Say(parts[1]), decision_id=parts[2], who=who, why="")
    return Word(
        say=word.say,
        decision_id=word.decision_id,
        who=who,
        why=event.message.removeprefix(word.sentence).removeprefix(": "),
    )
