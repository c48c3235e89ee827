"""What no policy may ask for, whatever its cases show: refused when it is loaded.

A policy may only lower what the hardware does, for a limited time, and as often as a budget says.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rules.policy.model import ActionClass, Policy, Target
from telemetry.durations import format_duration

Key = tuple[str | int, ...]

# The longest lease that the actuator grants (agent.actuation.protocol); beyond it a cap outlives whoever set it.
LEASE_MAX_S = 86_400.0
# What people write for a lease that never ends.
_ENDLESS = frozenset(
    {"", "none", "null", "never", "off", "no", "inf", "infinite", "forever", "0", "0s", "0ms", "0m", "0h"}
)
# What would take a limit away rather than set one. A cap ends by its policy's own `release`, and never by another's.
_LOOSENING = ("release", "relax", "uncap", "unlock", "reset", "undrain", "resume", "restore", "raise")
_NO_LIMIT = ("none", "max", "maximum", "default", "unlimited", "unset", "off", "reset")
# These reach the whole node, whatever they name.
_WHOLE_NODE = (ActionClass.DRAIN, ActionClass.REQUEUE, ActionClass.POWER_CYCLE)
# These cannot be taken back, or tell somebody outside: without quiet time after each they come in a stream.
_ONCE_A_WHILE = (*_WHOLE_NODE, ActionClass.HOOK, ActionClass.CHECKPOINT)
_WIDE = (Target.ALL_GPUS, Target.ALL_GPUS_OF_SUPPLY, Target.ALL_GPUS_OF_JOB)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forbidden:
    """One thing that is asked for and refused, at a key."""

    key: Key
    found: str
    expected: str


def forbidden_values(document: object) -> Iterator[Forbidden]:
    """Yield what is refused in a document as it was written, before its values are read as what they may be."""
    then = document.get("then") if isinstance(document, Mapping) else None
    if not isinstance(then, Mapping):
        return
    action = str(then.get("action")).lower()
    if any(word in action.split("_") for word in _LOOSENING):
        expected = "an action that lowers something; what is in force ends by its own policy's release, or by a person"
        yield Forbidden(key=("then", "action"), found=f"{action} would take a limit away", expected=expected)
    if "lease" in then and _is_endless(then["lease"]):
        expected = "5s or more: an action ends by itself when nobody renews it"
        yield Forbidden(key=("then", "lease"), found="an action without a lease", expected=expected)
    for name, section in then.items():
        if str(section).lower() in _NO_LIMIT and name in ("clock", "power", "fan", "limit"):
            yield Forbidden(key=("then", name), found=f"{section} would uncap", expected="how a lower setting is found")
        share = section.get("fraction") if isinstance(section, Mapping) else None
        if isinstance(share, int | float) and share >= 1.0:
            expected = "less than 1: no policy goes above the vendor's default"
            yield Forbidden(key=("then", name, "fraction"), found=f"{share:g} of it would uncap", expected=expected)


def forbidden_reach(policy: Policy) -> Iterator[Forbidden]:
    """Yield what is refused in a policy whose every value is right by itself."""
    then = policy.then
    whole = then.action in _WHOLE_NODE
    if then.budget is None and (whole or then.target in _WIDE):
        reach = f"{then.action.value} reaches the whole node" if whole else f"target {then.target} reaches many GPUs"
        expected = "a budget, such as {actions: 6, per: 1h}: how often it may act"
        yield Forbidden(key=("then", "budget"), found=f"{reach} without a budget", expected=expected)
    if then.lease_s is not None and then.lease_s > LEASE_MAX_S:
        found = f"{format_duration(then.lease_s)} is as good as none"
        yield Forbidden(key=("then", "lease"), found=found, expected=f"{format_duration(LEASE_MAX_S)} at most")
    if then.action is ActionClass.POWER_CYCLE and not then.approval:
        expected = "required: a person approves each power cycle"
        yield Forbidden(key=("then", "approval"), found="power_cycle without approval", expected=expected)
    if then.cooldown_s <= 0 and then.action in _ONCE_A_WHILE:
        expected = "quiet time after each, such as 10m: what it does cannot be taken back"
        yield Forbidden(key=("then", "cooldown"), found=f"{then.action.value} without a pause", expected=expected)
    if policy.after == policy.id:
        yield Forbidden(key=("after",), found="a rung after itself", expected="the id of another policy")


def _is_endless(lease: object) -> bool:
    if isinstance(lease, bool) or lease is None:
        return not lease
    if isinstance(lease, int | float):
        return lease == 0
    return isinstance(lease, str) and lease.strip().lower() in _ENDLESS
