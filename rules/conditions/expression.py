"""The syntax of conditions: CEL read into a tree that can be checked and reasoned about.

The engine of the `common-expression-language` package judges conditions; it gives no tree. This reads the part of the
language (https://github.com/google/cel-spec/blob/master/doc/langdef.md) that conditions need, and a property test
holds both to the same answers.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a node of the tree is; `value` and `parts` in brackets."""

    LITERAL = "literal"  # (the value)
    NAME = "name"  # (the name)
    MEMBER = "member"  # (the member's name; of what)
    INDEX = "index"  # (; of what, which)
    CALL = "call"  # (the function; its arguments)
    METHOD = "method"  # (the function; what it is called on, its arguments)
    UNARY = "unary"  # (! or -; of what)
    BINARY = "binary"  # (the operator; left, right)
    CHOICE = "choice"  # (; if, then, else)
    LIST = "list"  # (; the items)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One part of an expression, from character `start` up to `end` of its text."""

    kind: Kind
    start: int
    end: int
    value: object = None
    parts: tuple["Node", ...] = ()

    @property
    def path(self) -> str | None:
        """The dotted name that it is, such as ``incident.numbers.minimum_v``; None where it is something else."""
        match self.kind:
            case Kind.NAME:
                return str(self.value)
            case Kind.MEMBER:
                of = self.parts[0].path
                return None if of is None else f"{of}.{self.value}"
            case Kind.INDEX if isinstance(self.parts[1].value, str) and self.parts[1].kind is Kind.LITERAL:
                of = self.parts[0].path
                return None if of is None else f"{of}.{self.parts[1].value}"
        return None

    def walk(self) -> Iterator["Node"]:
        """Yield it and every part of it, outermost first."""
        yield self
        for part in self.parts:
            yield from part.walk()


class NotCelError(ValueError):
    """The text is not an expression of the language: where, and what was expected there."""

    def __init__(self, at: int, expected: str) -> None:
        self.at = at
        self.expected = expected
        super().__init__(f"column {at + 1}: {expected}")


# Tokens as in the language definition: a number must not run into a name, a string is of one line or in three quotes.
_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    |(?P<double>(?:\d+\.\d+|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
    |(?P<int>0[xX][0-9a-fA-F]+|\d+)
    |(?P<text>[rR]?(?:\"\"\".*?\"\"\"|'''.*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
    |(?P<name>[A-Za-z_]\w*)
    |(?P<mark>&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?", "a": "\a", "b": "\b"}
_WORDS: dict[str, object] = {"true": True, "false": False, "null": None}
# From the weakest binding to the strongest; all of them join to the left.
_LEVELS = (("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"))
# Heuristic: no condition that a person writes comes near, and Python's own stack stands at 1000. Brackets cost seven
# calls each while they are read, signs and joined parts two each while the tree is checked.
_DEPTH_MAX = 40
_LEVELS_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    kind: str
    text: str
    start: int


def parse_expression(source: str) -> Node:
    """Read an expression; NotCelError where it is none."""
    return _Parser(source).whole()


def _tokens(source: str) -> Iterator[_Token]:
    at, before = 0, "mark"
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            raise NotCelError(at, f"no {source[at]!r} here")
        kind = str(match.lastgroup)
        if kind == "name" and before in ("int", "double"):
            raise NotCelError(at, "a space or an operator after the number")
        if kind != "space":
            yield _Token(kind=kind, text=match[0], start=at)
        at, before = match.end(), kind
    yield _Token(kind="end", text="", start=len(source))


class _Parser:
    def __init__(self, source: str) -> None:
        self._tokens = tuple(_tokens(source))
        self._at = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._choice()
        if self._next.kind != "end":
            raise NotCelError(self._next.start, f"an operator or the end, not {self._next.text!r}")
        level, depth = [node], 0
        while level:
            depth += 1
            if depth > _LEVELS_MAX:
                raise NotCelError(level[0].start, f"at most {_LEVELS_MAX} parts inside each other")
            level = [part for outer in level for part in outer.parts]
        return node

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    @property
    def _end(self) -> int:
        """Where the token before this one ends."""
        before = self._tokens[self._at - 1]
        return before.start + len(before.text)

    def _take(self) -> _Token:
        token = self._next
        self._at += 1
        return token

    def _is(self, *texts: str) -> bool:
        return self._next.kind in ("mark", "name") and self._next.text in texts

    def _want(self, text: str) -> None:
        if not self._is(text):
            raise NotCelError(self._next.start, f"{text!r}, not {self._next.text or 'the end'!r}")
        self._take()

    def _choice(self) -> Node:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise NotCelError(self._next.start, f"at most {_DEPTH_MAX} brackets inside each other")
        asked = self._binary(0)
        if self._is("?"):
            self._take()
            yes = self._binary(0)
            self._want(":")
            no = self._choice()
            asked = Node(kind=Kind.CHOICE, start=asked.start, end=no.end, parts=(asked, yes, no))
        self._depth -= 1
        return asked

    def _binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self._is(*_LEVELS[level]):
            operator = self._take().text
            right = self._binary(level + 1)
            left = Node(kind=Kind.BINARY, start=left.start, end=right.end, value=operator, parts=(left, right))
        return left

    def _unary(self) -> Node:
        marks = []
        while self._is("!", "-"):
            marks.append(self._take())
        node = self._member()
        for mark in reversed(marks):
            literal = node.kind is Kind.LITERAL and isinstance(node.value, int | float) and mark.text == "-"
            if literal and not isinstance(node.value, bool):
                value = -node.value  # type: ignore[operator]  # a number, by the line above
                node = Node(kind=Kind.LITERAL, start=mark.start, end=node.end, value=value)
            else:
                node = Node(kind=Kind.UNARY, start=mark.start, end=node.end, value=mark.text, parts=(node,))
        return node

    def _member(self) -> Node:
        node = self._primary()
        while self._is(".", "["):
            if self._take().text == "[":
                which = self._choice()
                self._want("]")
                node = Node(kind=Kind.INDEX, start=node.start, end=self._end, parts=(node, which))
                continue
            if self._next.kind != "name":
                raise NotCelError(self._next.start, "a name after the point")
            name = self._take().text
            if self._is("("):
                parts = (node, *self._items(")"))
                node = Node(kind=Kind.METHOD, start=node.start, end=self._end, value=name, parts=parts)
            else:
                node = Node(kind=Kind.MEMBER, start=node.start, end=self._end, value=name, parts=(node,))
        return node

    def _items(self, closing: str) -> tuple[Node, ...]:
        self._take()
        items: list[Node] = []
        while not self._is(closing):
            items.append(self._choice())
            if not self._is(closing):
                self._want(",")
        self._take()
        return tuple(items)

    def _primary(self) -> Node:
        token = self._next
        read: dict[str, Callable[[str], object]] = {"double": float, "int": lambda text: int(text, 0), "text": _text}
        if token.kind in read:
            self._take()
            return Node(kind=Kind.LITERAL, start=token.start, end=self._end, value=_value(token, read[token.kind]))
        if token.kind == "name" and token.text != "in":
            self._take()
            if token.text in _WORDS:
                return Node(kind=Kind.LITERAL, start=token.start, end=self._end, value=_WORDS[token.text])
            if self._is("("):
                parts = self._items(")")
                return Node(kind=Kind.CALL, start=token.start, end=self._end, value=token.text, parts=parts)
            return Node(kind=Kind.NAME, start=token.start, end=self._end, value=token.text)
        if self._is("("):
            self._take()
            inner = self._choice()
            self._want(")")
            return Node(kind=inner.kind, start=token.start, end=self._end, value=inner.value, parts=inner.parts)
        if self._is("["):
            return Node(kind=Kind.LIST, start=token.start, parts=self._items("]"), end=self._end)
        raise NotCelError(token.start, f"a value, not {token.text or 'the end'!r}")


def _value(token: _Token, read: Callable[[str], object]) -> object:
    try:
        return read(token.text)
    except ValueError as err:
        raise NotCelError(token.start, str(err)) from err


def _text(quoted: str) -> str:
    raw = quoted[0] in "rR"
    body = quoted[1:] if raw else quoted
    width = 3 if body[:3] in ('"""', "'''") else 1
    body = body[width:-width]
    if raw:
        return body
    unknown = [part for part in re.findall(r"\\(.)", body, re.DOTALL) if part not in _ESCAPES]
    if unknown:
        raise ValueError(f"no \\{unknown[0]} in a text; letters stand for themselves")
    return re.sub(r"\\(.)", lambda match: _ESCAPES[match[1]], body, flags=re.DOTALL)
