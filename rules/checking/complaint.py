"""Results of the checks of policies."""

from dataclasses import dataclass
from enum import StrEnum


class Flaw(StrEnum):
    """Kind of mistake in a policy."""

    UNREACHABLE = "unreachable"
    CONTRADICTING = "contradicting"
    LADDER = "ladder"
    INEFFECTIVE = "without effect"
    RARE = "rarely climbed"
    OVERLAPPING = "overlapping"
    UNBOUNDED = "unbounded"
    UNSOURCED = "without a source"
    UNTESTED = "never tested"

    @property
    def is_error(self) -> bool:
        """True if the policies must not be used like this; a warning is for a person to weigh."""
        return self in (Flaw.UNREACHABLE, Flaw.CONTRADICTING, Flaw.LADDER, Flaw.INEFFECTIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """One mistake in one policy; `key` is its place in the file, such as ``then.budget``."""

    policy_id: str
    where: str
    key: str
    flaw: Flaw
    summary: str
