"""Commands of operators as data: what page, command line and fleet service append, and guard and responder read."""

from dataclasses import dataclass
from enum import StrEnum

# heuristic: long enough for a name and a reason that a person types; longer text is a flood.
WHO_MAX, WHY_MAX = 100, 1000
# Subject of a release that means every incident.
EVERYTHING = "*"


class CommandVerb(StrEnum):
    """Commands that an operator can give; `agree` and `disagree` judge a decision and change nothing."""

    APPROVE = "approve"
    REJECT = "reject"
    RESET_BREAKER = "reset_breaker"
    AGREE = "agree"
    DISAGREE = "disagree"
    RELEASE = "release"
    ACCEPT_BASELINE = "accept_baseline"


_PAST = {
    CommandVerb.APPROVE: "approved",
    CommandVerb.REJECT: "rejected",
    CommandVerb.RESET_BREAKER: "breaker reset",
    CommandVerb.AGREE: "agreed with",
    CommandVerb.DISAGREE: "disagreed with",
    CommandVerb.RELEASE: "released",
    CommandVerb.ACCEPT_BASELINE: "baseline accepted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Command of an operator.

    `subject` is the id of the decision (approve, reject, agree, disagree), of the incident or ``*`` (release) or of the
    entity (accept_baseline); it is empty for reset_breaker. `who` is empty where a record of an earlier version does
    not name the operator.
    """

    id: str
    time_ns: int
    verb: CommandVerb
    subject: str
    who: str
    why: str

    @property
    def message(self) -> str:
        """Sentence of the subject, the command, who sent it and why."""
        subject = f"{self.subject} " if self.subject else ""
        by = f" by {self.who}" if self.who else ""
        return f"{subject}{_PAST[self.verb]}{by}" + (f": {self.why}" if self.why else "")


def new_command(verb: CommandVerb, subject: str, *, who: str, why: str, now_ns: int) -> Command:
    """Build a command with an id of its own; ValueError where `who` is missing or a text is too long."""
    if not who.strip() or len(who) > WHO_MAX or len(why) > WHY_MAX:
        raise ValueError(f"expected who of 1 to {WHO_MAX} characters and why of at most {WHY_MAX}")
    command_id = f"command/{verb}/{subject}/{now_ns}"
    return Command(id=command_id, time_ns=now_ns, verb=verb, subject=subject, who=who, why=why)


def release_reason(who: str, why: str) -> str:
    """Return the reason of the actions that an operator releases."""
    by = f" by {who}" if who else ""
    return f"released by hand{by}" + (f": {why}" if why else "")
