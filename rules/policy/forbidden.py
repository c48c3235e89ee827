"""Requests that no policy may make, whatever its cases show: refused when it is loaded.

A policy may only restrain the hardware, for a limited time, and as often as its budget allows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rules.policy.model import ActionClass, Policy, Target
from telemetry.durations import format_duration

Key = tuple[str | int, ...]

# The longest lease that the actuator grants; beyond it a cap outlives the process that set it.
LEASE_MAX_S = 86_400.0
# Texts for a lease that never ends.
_ENDLESS = frozenset(
    {"", "none", "null", "never", "off", "no", "inf", "infinite", "forever", "0", "0s", "0ms", "0m", "0h"}
)
# Actions that would remove a limit. A cap ends by the `release` of its own policy.
_LOOSENING = ("release", "relax", "uncap", "unlock", "reset", "undrain", "resume", "restore", "raise")
_NO_LIMIT = ("none", "max", "maximum", "default", "unlimited", "unset", "off", "reset")
# These affect the whole node, whatever they name.
_WHOLE_NODE = (ActionClass.DRAIN, ActionClass.REQUEUE, ActionClass.POWER_CYCLE)
# These cannot be undone, or go outside: without a cooldown they come in a stream.
_ONCE_A_WHILE = (*_WHOLE_NODE, ActionClass.HOOK, ActionClass.CHECKPOINT)
_WIDE = (Target.ALL_GPUS, Target.ALL_GPUS_OF_SUPPLY, Target.ALL_GPUS_OF_JOB)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forbidden:
    """Refused request, at a key."""

    key: Key
    found: str
    expected: str


def forbidden_values(document: object) -> Iterator[Forbidden]:
    """Yield the refused values of a document as written, before its values are parsed."""
    then = document.get("then") if isinstance(document, Mapping) else None
    if not isinstance(then, Mapping):
        return
    action = str(then.get("action")).lower()
    if any(verb in action.split("_") for verb in _LOOSENING):
        expected = "an action that lowers something; a cap ends by the release of its policy, or by an operator"
        yield Forbidden(key=("then", "action"), found=f"{action} would remove a limit", expected=expected)
    if "lease" in then and _is_endless(then["lease"]):
        expected = "5s or more: an action ends by itself without renewal"
        yield Forbidden(key=("then", "lease"), found="an action without a lease", expected=expected)
    for name, section in then.items():
        if str(section).lower() in _NO_LIMIT and name in ("clock", "power", "fan", "limit"):
            yield Forbidden(
                key=("then", name), found=f"{section} would uncap", expected="a section that defines a lower setting"
            )
        share = section.get("fraction") if isinstance(section, Mapping) else None
        if isinstance(share, int | float) and share >= 1.0:
            expected = "less than 1: no policy goes above the vendor's default"
            yield Forbidden(key=("then", name, "fraction"), found=f"{share:g} of it would uncap", expected=expected)


def forbidden_reach(policy: Policy) -> Iterator[Forbidden]:
    """Yield the refused combinations in a policy whose values are valid one by one."""
    then = policy.then
    whole = then.action in _WHOLE_NODE
    if then.budget is None and (whole or then.target in _WIDE):
        reach = f"{then.action.value} reaches the whole node" if whole else f"target {then.target} reaches many GPUs"
        expected = "a budget, such as {actions: 6, per: 1h}: how often it may act"
        yield Forbidden(key=("then", "budget"), found=f"{reach} without a budget", expected=expected)
    if then.lease_s is not None and then.lease_s > LEASE_MAX_S:
        found = f"{format_duration(then.lease_s)} is too long"
        yield Forbidden(key=("then", "lease"), found=found, expected=f"{format_duration(LEASE_MAX_S)} at most")
    if then.action is ActionClass.POWER_CYCLE and not then.approval:
        expected = "required: an operator approves each power cycle"
        yield Forbidden(key=("then", "approval"), found="power_cycle without approval", expected=expected)
    if then.cooldown_s <= 0 and then.action in _ONCE_A_WHILE:
        expected = "a cooldown, such as 10m: it cannot be undone"
        yield Forbidden(key=("then", "cooldown"), found=f"{then.action.value} without a cooldown", expected=expected)
    if policy.after == policy.id:
        yield Forbidden(key=("after",), found="a policy after itself", expected="the id of another policy")


def _is_endless(lease: object) -> bool:
    if isinstance(lease, bool) or lease is None:
        return not lease
    if isinstance(lease, int | float):
        return lease == 0
    return isinstance(lease, str) and lease.strip().lower() in _ENDLESS
