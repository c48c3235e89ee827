"""What a check says of a policy."""

from dataclasses import dataclass
from enum import StrEnum


class Flaw(StrEnum):
    """What is wrong with it."""

    UNREACHABLE = "unreachable"
    CONTRADICTING = "contradicting"
    LADDER = "ladder"
    INEFFECTIVE = "without effect"
    RARE = "rarely climbed"
    OVERLAPPING = "overlapping"
    UNBOUNDED = "unbounded"
    UNSOURCED = "without a source"
    UNTESTED = "never tested"
    UNDECIDED = "cannot be decided"

    @property
    def is_error(self) -> bool:
        """Whether the policies must not be used like this; a warning is for a person to weigh."""
        return self in (Flaw.UNREACHABLE, Flaw.CONTRADICTING, Flaw.LADDER, Flaw.INEFFECTIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """One thing to say of one policy; `key` is where in its file, such as ``then.budget``."""

    policy_id: str
    where: str
    key: str
    flaw: Flaw
    words: str
