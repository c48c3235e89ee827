"""Conditions of policies: CEL expressions over an incident and its node, checked when they are loaded.

CEL (https://cel.dev) has no loops, no input and no output, and its regular expressions are linear, so a condition from
a file can at worst be wrong, never slow or harmful.
"""

import importlib.machinery
import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from rules.conditions.expression import Kind, Node, NotCelError, parse_expression
from rules.conditions.facts import fact_of
from rules.conditions.types import Fault, faults_of

LENGTH_MAX = 1000

_SYNTAX_ERROR = re.compile(r"<input>:\d+:(\d+): Syntax error: (.*?)(?: expecting \{.*)?(?:\n|$)")


class ConditionError(ValueError):
    """A condition cannot be used; carries every fault at once, each with its place in the text."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(f"{item.expected} (column {item.at + 1}: {item.found})" for item in self.faults))


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a condition says of an incident. `doubt` says in words why it could not be judged; it is then not met."""

    met: bool
    doubt: str | None = None


NOT_MET = Judgement(met=False)


@dataclass(frozen=True, slots=True)
class Condition:
    """A checked expression.

    `moves` says that it asks something that changes between two records of an incident, such as its age or a voltage:
    it then has to be judged at every step.
    """

    source: str
    program: Any
    tree: Node
    moves: bool

    def judge(self, facts: Mapping[str, Any]) -> Judgement:
        """Judge what `facts_of` returned. What is absent is not met, and reported; about 20 us a call."""
        try:
            answer = self.program.execute(dict(facts))
        except KeyError as err:
            return Judgement(met=False, doubt=f"the condition needs {err.args[0]}, which is not known")
        except (TypeError, RuntimeError, ValueError, ArithmeticError) as err:
            return Judgement(met=False, doubt=f"the condition cannot be judged: {_one_line(err)}")
        if not isinstance(answer, bool):
            return Judgement(met=False, doubt=f"the condition gives {answer!r}, not true or false")
        return Judgement(met=answer)


def compile_condition(source: str) -> Condition:
    """Compile and check an expression.

    Raises
    ------
    ConditionError
        It is not CEL, is too long, compares what cannot be compared, or asks for a fact, a word or a piece of evidence
        that does not exist: every fault with its place, and the nearest right one.
    """
    if len(source) > LENGTH_MAX:
        found = f"{len(source)} characters"
        raise ConditionError([Fault(at=LENGTH_MAX, found=found, expected=f"at most {LENGTH_MAX} characters")])
    try:
        tree = parse_expression(source)
    except NotCelError as err:
        raise ConditionError([Fault(at=err.at, found="no CEL", expected=f"a CEL expression: {err.expected}")]) from err
    faults = faults_of(tree)
    if faults:
        raise ConditionError(faults)
    try:
        program = _cel().compile(source)
    except ValueError as err:
        raise ConditionError([Fault(at=0, found=_one_line(err), expected="a CEL expression")]) from err
    faults = tuple(_broken_parts(tree, source))
    if faults:
        raise ConditionError(faults)
    asked = (fact_of(path) for node in tree.walk() if (path := node.path) is not None)
    return Condition(source, program, tree, any(fact is not None and fact.moves for fact in asked))


def _broken_parts(node: Node, source: str) -> Iterator[Fault]:
    """Yield the parts that have no value whatever the incident, such as ``1 / 0``, or a pattern that is none."""
    for part in node.parts:
        yield from _broken_parts(part, source)
    text = source[node.start : node.end]
    if node.kind is Kind.METHOD and node.value == "matches":
        pattern = node.parts[1]
        text = f"''.matches({source[pattern.start : pattern.end]})"
        constant = not any(part.kind is Kind.NAME for part in pattern.walk())
    else:
        constant = node.kind in (Kind.BINARY, Kind.CALL, Kind.UNARY) and all(
            part.kind is Kind.LITERAL for part in node.parts
        )
    if not constant:
        return
    try:
        _cel().compile(text).execute({})
    except (TypeError, RuntimeError, ValueError, ArithmeticError) as err:
        yield Fault(at=node.start, found=_one_line(err), expected="a part that has a value")


def _cel() -> ModuleType:
    """Return the engine alone: its package imports a terminal program, which costs 280 ms and 23 MiB instead of 2."""
    name = "cel.cel"
    if name in sys.modules:
        return sys.modules[name]
    package = importlib.util.find_spec("cel")
    folders = () if package is None else tuple(package.submodule_search_locations or ())
    for folder in folders:
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            path = Path(folder, f"cel{suffix}")
            spec = importlib.util.spec_from_file_location(name, path) if path.exists() else None
            if spec is not None and spec.loader is not None:
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                sys.modules[name] = module
                return module
    return importlib.import_module("cel")  # another layout of the package: whole, and slower


def _one_line(err: Exception) -> str:
    """Return the first thing that the engine complains of, without its drawing of the place."""
    syntax = _SYNTAX_ERROR.search(str(err))
    text = f"column {syntax[1]}: {syntax[2]}" if syntax else str(err).partition("\n")[0]
    return text if len(text) <= 160 else text[:157] + "..."
