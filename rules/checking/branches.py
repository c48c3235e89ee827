"""A condition taken apart: the ways in which it can be met, each as what it asks of every fact.

A way, or branch, is a conjunction: the words that each text may be, the numbers that each number may be, what must be
absent, and *doubts*, the parts about which nothing is known here (two facts against each other, arithmetic, functions).
Without doubts the answer is exact: causes, severities, states and kinds are finite, and comparisons with constants are
intervals.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

from rules.checking.ranges import EVERYTHING, Interval, Range, compared, meet, outside, some_of
from rules.conditions.expression import Kind, Node
from rules.conditions.facts import FACTS, NUMBERS, ROOTS, Fact, Type, fact_of
from telemetry.entities import EntityKind
from telemetry.records import IncidentState, Severity

# Heuristic: a person's condition has a handful of ways; 512 are told as too many to look at.
BRANCHES_MAX = 512
# Comparisons turned round, as in ``11.4 > fact``, and their opposites, as in ``!(fact > 11.4)``.
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_SEVERITY, _RANK = "incident.severity", "incident.severity_rank"
_KIND, _ENTITY = "incident.entity_kind", "incident.entity_id"


class TooManyBranchesError(ValueError):
    """The condition can be met in more ways than are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One way to be met. `parts` are the pieces of the condition that it is made of, as they are written."""

    words: Mapping[str, frozenset[str]] = field(default_factory=dict)
    numbers: Mapping[str, Range] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    doubts: Mapping[str, bool] = field(default_factory=dict)
    parts: tuple[str, ...] = ()

    def meet(self, other: "Branch") -> "Branch | None":
        """Return what meets both, None where nothing can."""
        words = dict(self.words)
        for path, allowed in other.words.items():
            words[path] = words.get(path, allowed) & allowed
        numbers = dict(self.numbers)
        for path, range_ in other.numbers.items():
            numbers[path] = meet(numbers.get(path, EVERYTHING), range_)
        both = Branch(
            words=words,
            numbers=numbers,
            absent=self.absent | other.absent,
            doubts={**self.doubts, **other.doubts},
            parts=tuple(dict.fromkeys((*self.parts, *other.parts))),
        )
        at_odds = any(self.doubts.get(text, value) is not value for text, value in other.doubts.items())
        return None if at_odds or not both.can_be() else both

    def can_be(self) -> bool:
        """Return whether some facts meet it, as far as its words and numbers go."""
        kinds = self.words.get(_KIND)
        entities = self.words.get(_ENTITY)
        if kinds is not None and entities is not None and not any(name.partition(":")[0] in kinds for name in entities):
            return False
        if any(not allowed for allowed in self.words.values()) or self.absent & {*self.words, *self.numbers}:
            return False
        return all(
            some_of(_bounded(path, range_), whole=_whole(path)) is not None for path, range_ in self.numbers.items()
        )

    def __str__(self) -> str:
        return " && ".join(self.parts) or "true"


ALWAYS = Branch()
# Whatever the condition says, an incident that is not open starts nothing.
OPEN = frozenset({IncidentState.OPEN.value})
# But the ramp of a job that starts while the cap of another policy holds the symptom down.
OPEN_OR_MITIGATED = OPEN | {IncidentState.MITIGATED.value}


def branches_of(tree: Node, source: str, *, states: frozenset[str] = OPEN) -> tuple[Branch, ...]:
    """Return every way in which an incident in one of these states can meet a condition; none where it never can."""
    within = Branch(words={"incident.state": states})
    met = (both for branch in _ways(tree, source, wanted=True) if (both := branch.meet(within)) is not None)
    return tuple(met)


def _ways(node: Node, source: str, *, wanted: bool) -> list[Branch]:
    """Return the ways in which a part is true, or false where that is wanted."""
    if node.kind is Kind.LITERAL:
        return [ALWAYS] if node.value is wanted else []
    if node.kind is Kind.UNARY and node.value == "!":
        return _ways(node.parts[0], source, wanted=not wanted)
    if node.kind is Kind.CHOICE:
        asked, yes, no = node.parts
        return _limited(
            [
                *_both(_ways(asked, source, wanted=True), _ways(yes, source, wanted=wanted)),
                *_both(_ways(asked, source, wanted=False), _ways(no, source, wanted=wanted)),
            ]
        )
    if node.kind is Kind.BINARY and node.value in ("&&", "||"):
        left, right = (_ways(part, source, wanted=wanted) for part in node.parts)
        return _limited([*left, *right]) if (node.value == "||") is wanted else _both(left, right)
    text = source[node.start : node.end]
    return [replace(_atom(node, text, wanted=wanted), parts=(text if wanted else f"!({text})",))]


def _both(left: list[Branch], right: list[Branch]) -> list[Branch]:
    return _limited([both for a, b in product(left, right) if (both := a.meet(b)) is not None])


def _limited(ways: list[Branch]) -> list[Branch]:
    if len(ways) > BRANCHES_MAX:
        raise TooManyBranchesError(f"more than {BRANCHES_MAX} ways to be met")
    return ways


def _atom(node: Node, text: str, *, wanted: bool) -> Branch:
    """Return what one comparison asks; a doubt where it cannot be said."""
    found = None
    if node.kind is Kind.CALL and node.value == "has":
        found = _presence(node.parts[0].path or "", wanted=wanted)
    elif node.kind is Kind.BINARY and node.value == "in":
        found = _membership(*node.parts, wanted=wanted)
    elif node.kind is Kind.BINARY and node.value in _TURNED:
        operator, (left, right) = str(node.value), node.parts
        if _constant(left) is not None:
            left, right, operator = right, left, _TURNED[operator]
        found = _comparison(left.path, operator if wanted else _OPPOSITE[operator], _constant(right))
    return Branch(doubts={text: wanted}) if found is None else found


def _presence(path: str, *, wanted: bool) -> Branch | None:
    fact = fact_of(path)
    if fact is None:
        return None
    if not fact.lacks:
        return ALWAYS if wanted else Branch(words={path: frozenset()})
    if not wanted:
        return Branch(absent=frozenset({path}))
    return Branch(words={path: frozenset(fact.words)}) if fact.words else Branch(numbers={path: EVERYTHING})


def _membership(one: Node, many: Node, *, wanted: bool) -> Branch | None:
    if many.path == NUMBERS and isinstance(one.value, str):
        return _presence(f"{NUMBERS}.{one.value}", wanted=wanted)
    if many.kind is not Kind.LIST:
        return None
    values = [_constant(item) for item in many.parts]
    fact = None if one.path is None else fact_of(one.path)
    if fact is None or one.path is None or any(value is None for value in values):
        return None
    if fact.type is Type.TEXT:
        texts = frozenset(value for value in values if isinstance(value, str))
        return _of_words(one.path, fact, texts, wanted=wanted)
    points = tuple(float(value) for value in values if isinstance(value, int | float))
    range_ = tuple(Interval(low=point, high=point) for point in points) if wanted else outside(points)
    return _of_numbers(one.path, range_)


def _comparison(path: str | None, operator: str, constant: object) -> Branch | None:
    fact = None if path is None else fact_of(path)
    if path is None or fact is None or constant is None:
        return None
    if fact.type is Type.TEXT and isinstance(constant, str) and operator in ("==", "!="):
        return _of_words(path, fact, frozenset({constant}), wanted=operator == "==")
    if fact.type in (Type.INT, Type.DOUBLE) and isinstance(constant, int | float):
        return _of_numbers(path, compared(operator, float(constant)))
    return None


def _of_words(path: str, fact: Fact, texts: frozenset[str], *, wanted: bool) -> Branch | None:
    if fact.words is None:
        return Branch(words={path: texts}) if wanted else None
    return Branch(words={path: texts if wanted else frozenset(fact.words) - texts})


def _of_numbers(path: str, range_: Range) -> Branch:
    if path == _RANK:  # the same fact in another form
        allowed = frozenset(item.value for item in Severity if any(part.holds(item.rank) for part in range_))
        return Branch(words={_SEVERITY: allowed})
    return Branch(numbers={path: range_})


def _constant(node: Node) -> object:
    """Return the value of a literal, None where it is none."""
    return node.value if node.kind is Kind.LITERAL and not isinstance(node.value, bool) else None


def _bounded(path: str, range_: Range) -> Range:
    fact = fact_of(path)
    return range_ if fact is None else meet(range_, (Interval(low=fact.low, high=fact.high),))


def _whole(path: str) -> bool:
    fact = fact_of(path)
    return fact is not None and fact.type is Type.INT


def witness_of(branch: Branch) -> dict[str, dict[str, object]]:
    """Return facts that meet a branch as far as its texts and numbers go, in the form of `facts_of`."""
    told: dict[str, dict[str, object]] = {root: {} for root in ROOTS}
    evidence: dict[str, object] = {}
    for path, value in _values(branch):
        root, _, name = path.partition(".")
        if path.startswith(f"{NUMBERS}."):
            evidence[path.removeprefix(f"{NUMBERS}.")] = value
        else:
            told[root][name] = value
    told["incident"]["numbers"] = evidence
    severity = Severity(str(told["incident"]["severity"]))
    told["incident"]["severity_rank"] = severity.rank
    return told


def _values(branch: Branch) -> Iterator[tuple[str, object]]:
    entity = min(branch.words.get(_ENTITY, {f"{_first(branch, _KIND, FACTS[_KIND])}:0"}))
    for path, fact in FACTS.items():
        asked = path in branch.words or path in branch.numbers
        if path in (NUMBERS, _RANK) or (fact.lacks and not asked):
            continue
        if path == _ENTITY:
            yield path, entity
        elif path == _KIND:
            yield path, entity.partition(":")[0]
        elif fact.type is Type.TEXT:
            yield path, _first(branch, path, fact)
        elif fact.type is Type.BOOL:
            yield path, branch.doubts.get(path, False)
        else:
            yield path, _number(branch, path, fact)
    for path in branch.numbers:
        if path.startswith(f"{NUMBERS}."):
            yield path, _number(branch, path, Fact(type=Type.DOUBLE, meaning=""))


def _first(branch: Branch, path: str, fact: Fact) -> str:
    allowed = branch.words.get(path)
    if path == _KIND and allowed is None and (named := branch.words.get(_ENTITY)):
        allowed = frozenset(name.partition(":")[0] for name in named)
    words = fact.words or tuple(EntityKind)
    return next((word for word in words if allowed is None or word in allowed), words[0])


def _number(branch: Branch, path: str, fact: Fact) -> float | int:
    whole = fact.type is Type.INT
    value = some_of(_bounded(path, branch.numbers.get(path, EVERYTHING)), whole=whole) or 0.0
    return int(value) if whole else value


def holds(branch: Branch, facts: Mapping[str, Mapping[str, object]]) -> bool:
    """Return whether facts meet a branch as far as its words and numbers go."""
    for path, allowed in branch.words.items():
        if _fact(facts, path) not in allowed:
            return False
    for path, range_ in branch.numbers.items():
        value = _fact(facts, path)
        if not isinstance(value, int | float) or not any(item.holds(value) for item in range_):
            return False
    return not any(_fact(facts, path) is not None for path in branch.absent)


def _fact(facts: Mapping[str, Mapping[str, object]], path: str) -> object:
    root, _, name = path.partition(".")
    inner: object = facts.get(root, {})
    for part in name.split(".", 1):
        inner = inner.get(part) if isinstance(inner, Mapping) else None
    return inner
