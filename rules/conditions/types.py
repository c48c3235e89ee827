"""The types of a condition: what does not fit is found when it is loaded, with its place in the text."""

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rules.conditions.expression import Kind, Node
from rules.conditions.facts import NUMBERS, ROOTS, Type, fact_of, members_of
from telemetry.entities import EntityKind
from telemetry.evidence import EVIDENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong in a condition, at a character of its text."""

    at: int
    found: str
    expected: str


class _Other(StrEnum):
    """Types that no fact has."""

    LIST = "list"
    NULL = "null"
    ANY = "anything"  # after a fault, so that one mistake is told once


_Type = Type | _Other
_NUMBERS = (Type.INT, Type.DOUBLE, _Other.ANY)
_TEXTS = (Type.TEXT, _Other.ANY)
_TRUTHS = (Type.BOOL, _Other.ANY)
_MACROS = ("all", "exists", "exists_one")
# Functions of CEL's standard library that conditions may call, what they take and give. None reads a clock or a file.
_FUNCTIONS: Mapping[str, tuple[tuple[_Type, ...], _Type]] = {
    "size": ((Type.TEXT, Type.MAP, _Other.LIST, _Other.ANY), Type.INT),
    "double": ((Type.INT, Type.DOUBLE, Type.TEXT, _Other.ANY), Type.DOUBLE),
    "int": ((Type.INT, Type.DOUBLE, Type.TEXT, _Other.ANY), Type.INT),
    "string": ((Type.INT, Type.DOUBLE, Type.TEXT, _Other.ANY), Type.TEXT),
}
_METHODS = ("startsWith", "endsWith", "contains", "matches")


def faults_of(tree: Node) -> tuple[Fault, ...]:
    """Return everything in a condition that does not fit, in the order of its text."""
    checker = _Checker()
    answer = checker.type_of(tree, {})
    if answer not in _TRUTHS:
        checker.fault(tree, f"gives a {answer.value}", "an expression that gives true or false")
    return tuple(sorted(checker.faults, key=lambda item: item.at))


@dataclass(slots=True)
class _Checker:
    faults: list[Fault] = field(default_factory=list)

    def fault(self, node: Node, found: str, expected: str) -> _Type:
        self.faults.append(Fault(at=node.start, found=found, expected=expected))
        return _Other.ANY

    def type_of(self, node: Node, bound: Mapping[str, _Type]) -> _Type:
        read: Mapping[Kind, Callable[[Node, Mapping[str, _Type]], _Type]] = {
            Kind.LITERAL: lambda item, _: _literal(item.value),
            Kind.NAME: self._name,
            Kind.MEMBER: self._member,
            Kind.INDEX: self._index,
            Kind.CALL: self._call,
            Kind.METHOD: self._method,
            Kind.UNARY: self._unary,
            Kind.BINARY: self._binary,
            Kind.CHOICE: self._choice,
            Kind.LIST: self._list,
        }
        return read[node.kind](node, bound)

    def _name(self, node: Node, bound: Mapping[str, _Type]) -> _Type:
        name = str(node.value)
        if name in bound:
            return bound[name]
        if name in ROOTS:
            return self.fault(node, f"{name} alone", f"a fact of it, such as {name}.{members_of(name)[0]}")
        return self.fault(node, f"unknown name {name}", _one_of(ROOTS, name))

    def _member(self, node: Node, bound: Mapping[str, _Type]) -> _Type:
        path = node.path or ""
        root, _, name = path.partition(".")
        if root in bound or root not in ROOTS:
            self.type_of(node.parts[0], bound)
            return self.fault(node, f"no member {node.value}", f"a fact of {', '.join(ROOTS)}")
        fact = fact_of(path)
        if fact is not None:
            return fact.type
        head, _, last = path.rpartition(".")
        if head == NUMBERS:
            return self._evidence(node, last)
        if head in ROOTS:
            known = members_of(root)
            return self.fault(node, f"unknown fact {path}", f"{_one_of(known, name)} after '{root}.'")
        return self.fault(node, f"unknown fact {path}", f"a fact; {head} has no members")

    def _evidence(self, node: Node, name: str) -> _Type:
        expected = _one_of(EVIDENCE, name, told="a name that a detector gives")
        return self.fault(node, f"unknown evidence {name!r}", expected)

    def _index(self, node: Node, bound: Mapping[str, _Type]) -> _Type:
        of, which = node.parts
        if of.path == NUMBERS:
            if which.kind is Kind.LITERAL and isinstance(which.value, str):
                return Type.DOUBLE if which.value in EVIDENCE else self._evidence(which, which.value)
            if self.type_of(which, bound) not in _TEXTS:
                self.fault(which, "no name", "the name of a piece of evidence")
            return Type.DOUBLE
        return self.fault(node, "a value in brackets", f"brackets after {NUMBERS} alone")

    def _call(self, node: Node, bound: Mapping[str, _Type]) -> _Type:
        name = str(node.value)
        if name == "has":
            if len(node.parts) != 1 or node.parts[0].kind is not Kind.MEMBER:
                return self.fault(
                    node, "has() of something else", f"has() of one fact, such as has({NUMBERS}.excess_c)"
                )
            self.type_of(node.parts[0], bound)
            return Type.BOOL
        if name not in _FUNCTIONS:
            known = ("has", *_FUNCTIONS)
            return self.fault(node, f"unknown function {name}()", _one_of(known, name))
        taken, given = _FUNCTIONS[name]
        if len(node.parts) != 1:
            return self.fault(node, f"{name}() of {len(node.parts)} values", "one value")
        of = self.type_of(node.parts[0], bound)
        if of not in taken:
            self.fault(
                node.parts[0], f"{name}() of a {of.value}", " or ".join(dict.fromkeys(t.value for t in taken[:-1]))
            )
        return given

    def _method(self, node: Node, bound: Mapping[str, _Type]) -> _Type:
        name, (on, *arguments) = str(node.value), node.parts
        if name in _MACROS and len(arguments) == 2 and arguments[0].kind is Kind.NAME:
            return self._macro(on, arguments, bound)
        if name == "size" and not arguments:
            return self._call(Node(kind=Kind.CALL, start=node.start, end=node.end, value="size", parts=(on,)), bound)
        if name not in _METHODS or len(arguments) != 1:
            known = (*_METHODS, *_MACROS, "size")
            return self.fault(node, f"unknown function .{name}()", _one_of(known, name))
        for part in (on, arguments[0]):
            if (got := self.type_of(part, bound)) not in _TEXTS:
                self.fault(part, f".{name}() with a {got.value}", "text")
        return Type.BOOL

    def _macro(self, on: Node, arguments: Iterable[Node], bound: Mapping[str, _Type]) -> _Type:
        name, body = arguments
        of = self.type_of(on, bound)
        if of not in (Type.MAP, _Other.LIST, _Other.ANY):
            self.fault(on, f"a {of.value}", f"a list or {NUMBERS}")
        each: _Type = Type.TEXT if of is Type.MAP else _Other.ANY
        if (got := self.type_of(body, {**bound, str(name.value): each})) not in _TRUTHS:
            self.fault(body, f"gives a {got.value}", "true or false for each")
        return Type.BOOL

    def _unary(self, node: Node, bound: Mapping[str, _Type]) -> _Type:
        of = self.type_of(node.parts[0], bound)
        allowed = _TRUTHS if node.value == "!" else _NUMBERS
        if of not in allowed:
            return self.fault(node, f"{node.value} before a {of.value}", f"a {allowed[0].value} after it")
        return of

    def _choice(self, node: Node, bound: Mapping[str, _Type]) -> _Type:
        asked, yes, no = (self.type_of(part, bound) for part in node.parts)
        if asked not in _TRUTHS:
            self.fault(node.parts[0], f"a {asked.value} before ?", "true or false")
        if yes is not no and _Other.ANY not in (yes, no):
            return self.fault(node.parts[2], f"{yes.value} or {no.value}", "both sides of ':' of one type")
        return yes

    def _list(self, node: Node, bound: Mapping[str, _Type]) -> _Type:
        for part in node.parts:
            self.type_of(part, bound)
        return _Other.LIST

    def _binary(self, node: Node, bound: Mapping[str, _Type]) -> _Type:
        operator = str(node.value)
        left, right = (self.type_of(part, bound) for part in node.parts)
        if operator in ("&&", "||"):
            for part, got in zip(node.parts, (left, right), strict=True):
                if got not in _TRUTHS:
                    self.fault(part, f"a {got.value} beside {operator}", "true or false on both sides")
            return Type.BOOL
        if operator in ("+", "-", "*", "/", "%"):
            return self._arithmetic(node, operator, left, right)
        if operator == "in":
            return self._membership(node, left, right)
        self._comparison(node, operator, left, right)
        return Type.BOOL

    def _arithmetic(self, node: Node, operator: str, left: _Type, right: _Type) -> _Type:
        if _Other.ANY in (left, right):
            return _Other.ANY
        whole = (Type.INT,)
        fitting = whole if operator == "%" else (Type.TEXT, *_NUMBERS) if operator == "+" else _NUMBERS
        if left is right and left in fitting:
            return left
        wanted = "whole numbers" if operator == "%" else "two numbers of one type"
        if {left, right} == {Type.INT, Type.DOUBLE}:
            wanted += ", as CEL converts none: write 2.0 for 2, or double(...)"
        return self.fault(node, f"{left.value} {operator} {right.value}", wanted)

    def _comparison(self, node: Node, operator: str, left: _Type, right: _Type) -> None:
        ordered = operator not in ("==", "!=")
        both_numbers = left in _NUMBERS and right in _NUMBERS
        if not both_numbers and left is not right and _Other.ANY not in (left, right):
            self.fault(node, f"{left.value} {operator} {right.value}", "two values of one type, or two numbers")
            return
        one, other = node.parts
        for fact, literal in ((one, other), (other, one)):
            known = _vocabulary(fact)
            if ordered and known is not None:
                rank = "; incident.severity_rank has an order" if fact.path == "incident.severity" else ""
                self.fault(node, f"{operator} on {fact.path}", f"== or in, for words have no order{rank}")
                return
            self._word(fact, literal)
        if ordered and not both_numbers and left not in (Type.TEXT, _Other.ANY):
            self.fault(node, f"{operator} on a {left.value}", "numbers or text")

    def _membership(self, node: Node, left: _Type, right: _Type) -> _Type:
        one, many = node.parts
        if right is Type.MAP:
            if one.kind is Kind.LITERAL and isinstance(one.value, str) and one.value not in EVIDENCE:
                self._evidence(one, one.value)
            elif left not in _TEXTS:
                self.fault(one, f"a {left.value} before in", "the name of a piece of evidence")
        elif many.kind is Kind.LIST:
            for item in many.parts:
                self._word(one, item)
                got = self.type_of(item, {}) if item.kind is Kind.LITERAL else _Other.ANY
                if got is not left and not (got in _NUMBERS and left in _NUMBERS) and _Other.ANY not in (got, left):
                    self.fault(item, f"a {got.value} in the list", f"a {left.value} like what stands before 'in'")
        elif right is not _Other.ANY:
            self.fault(many, f"a {right.value} after in", f"a list such as ['a', 'b'], or {NUMBERS}")
        return Type.BOOL

    def _word(self, fact: Node, literal: Node) -> None:
        """Check a literal text against the words that a fact can be."""
        if literal.kind is not Kind.LITERAL or not isinstance(literal.value, str):
            return
        known, word = _vocabulary(fact), literal.value
        if known is not None and word not in known:
            name = (fact.path or "").rpartition(".")[2].replace("_", " ")
            self.fault(literal, f"unknown {name} {word!r}", _one_of(known, word))
        elif fact.path == "incident.entity_id" and word.partition(":")[0] not in tuple(EntityKind):
            self.fault(literal, f"no entity {word!r}", "kind and key, such as supply:psu0")


def _vocabulary(node: Node) -> tuple[str, ...] | None:
    fact = None if node.path is None else fact_of(node.path)
    return None if fact is None else fact.words


def _literal(value: object) -> _Type:
    if value is None:
        return _Other.NULL
    if isinstance(value, bool):
        return Type.BOOL
    return Type.INT if isinstance(value, int) else Type.DOUBLE if isinstance(value, float) else Type.TEXT


def _one_of(known: Iterable[str], word: str, *, told: str = "") -> str:
    """Return what would be right, the nearest first; `told` stands for a list that is too long to be read."""
    nearest = difflib.get_close_matches(word, tuple(known), n=1)
    rest = told or f"one of {', '.join(known)}"
    return f"{nearest[0]} perhaps, or {rest}" if nearest else rest
