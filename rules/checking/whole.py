"""All checks over a set of policies."""

from collections.abc import Sequence

from rules.checking.bounds import unbounded
from rules.checking.complaint import Complaint
from rules.checking.contradictions import contradictions
from rules.checking.coverage import untested
from rules.checking.effects import without_effect
from rules.checking.ladders import ladder_complaints
from rules.checking.reach import unreachable
from rules.checking.sources import unsourced
from rules.policy.model import Policy

CHECKS = (unreachable, without_effect, contradictions, unbounded, untested, unsourced)


def check_policies(policies: Sequence[Policy], *, checked: frozenset[str] | None = None) -> tuple[Complaint, ...]:
    """Return the complaints of every check, errors first, then in the order of the policies.

    `checked` are the causes whose symptom is checked after an action, which ladders wait for.
    """
    order = {policy.id: place for place, policy in enumerate(policies)}
    found = [complaint for check in CHECKS for complaint in check(policies)]
    found += ladder_complaints(policies, checked=checked)
    return tuple(sorted(found, key=lambda item: (not item.flaw.is_error, order[item.policy_id])))
