"""What the numbers of the detectors rest on, read off their source: a page, and the numbers that rest on nothing.

A number is a constant of a module that a detector uses, or a default of its limits. Its ground is the comment at it or
above its block, or its entry in the docstring of the limits.
"""

import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from analytics.calibration.baselines import LEARNT
from analytics.detectors.build import DETECTORS, EVENT_DETECTORS, AnyDetector, AnyEventDetector
from analytics.detectors.limits import DetectorLimits

PAGE = Path("docs/reference/detector-numbers.md")
_PACKAGES = ("analytics", "physics")
_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")
_HEURISTIC = re.compile(r"heuristic|assum", re.IGNORECASE)
_SIMULATED = re.compile(r"simulat", re.IGNORECASE)
# Who measured, standardised or wrote it.
_SOURCE = re.compile(
    r"\b(1[89]|20)\d\d\b|recorded|recording|measured|standard|specif|data ?sheet|design guide|field report|table \d"
    r"|section \d|MLPerf|Oxford|NVML|NVIDIA|Intel|PMBus|SMBus|IPMI|IEC|UL |ITIC|CBEMA|EEMUA|OCP|PCI-SIG|ATX",
    re.IGNORECASE,
)
# Numbers of tables, versions and places in arrays: no threshold of a detector.
_NO_NUMBER = re.compile(r"_?(VERSION|LEARNT_VERSION)")
_LONGEST_VALUE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """Number of a detector: where it is, its name and value as written, and the words at it; empty without any."""

    module: str
    line: int
    name: str
    value: str
    ground: str

    @property
    def kind(self) -> str:
        """What it rests on: `source`, `heuristic`, `simulation`, `reason`, or nothing."""
        if not self.ground:
            return ""
        if _SIMULATED.search(self.ground):
            return "simulation"
        if _HEURISTIC.search(self.ground):
            return "heuristic"
        return "source" if _SOURCE.search(self.ground) else "reason"


def numbers(root: Path) -> list[Number]:
    """Return all numbers of the modules that a detector uses, by module and line."""
    return [number for module in sorted(_used(root)) for number in _of_module(root, module)]


def without_ground(root: Path) -> list[str]:
    """Return one line for each number that rests on nothing."""
    return [
        f"{_path(one.module)}, line {one.line}: {one.name} has no ground;"
        " expected a comment with its source or `heuristic:`"
        for one in numbers(root)
        if not one.kind
    ]


def grounds_markdown(root: Path) -> str:
    """Return the page."""
    found = numbers(root)
    lines = [
        "# What the numbers of the detectors rest on",
        "",
        "Generated from the code by `make generate`; do not edit. `make check` fails where a number rests on nothing.",
        "",
        "| ground | numbers | meaning |",
        "| --- | --- | --- |",
        f"| source | {_count(found, 'source')} | a standard, a data sheet, a paper or a recording, named in the text |",
        f"| heuristic | {_count(found, 'heuristic')} | chosen, with the reason; no source names it |",
        f"| simulation | {_count(found, 'simulation')} | chosen by what the simulator shows, for want of a recording |",
        f"| reason | {_count(found, 'reason')} | the text states what it counts, or why it has this value |",
        "",
        "What is *learnt* on the node is no constant: each detector learns it from the readings of the entity and",
        "freezes it.",
        "",
        "## Detectors",
        "",
        "| detector | module | learnt on the node |",
        "| --- | --- | --- |",
        *_detector_rows(),
        "",
        "A module that several detectors use stands once below.",
    ]
    for module in dict.fromkeys(one.module for one in found):
        lines += ["", f"## `{_path(module)}`", "", "| number | value | ground | as the code states it |"]
        lines += ["| --- | --- | --- | --- |"]
        lines += [
            f"| `{one.name}` | `{one.value}` | {one.kind or 'none'} | {one.ground.replace('|', '/')} |"
            for one in found
            if one.module == module
        ]
    return "\n".join(lines) + "\n"


def _count(found: Sequence[Number], kind: str) -> int:
    return sum(one.kind == kind for one in found)


def _detector_rows() -> Iterator[str]:
    limits = DetectorLimits()
    every: tuple[AnyDetector | AnyEventDetector, ...] = (
        *(build(limits) for build in DETECTORS),
        *(build(limits) for build in EVENT_DETECTORS),
    )
    for detector in every:
        learnt = "; ".join(one.what for one in LEARNT if one.detector == detector.name)
        yield f"| `{detector.name}` | `{_path(type(detector).__module__)}` | {learnt} |"


def _path(module: str) -> str:
    return module.replace(".", "/") + ".py"


def _used(root: Path) -> set[str]:
    """Return the modules that the detectors import, directly or not, their own among them."""
    limits = DetectorLimits()
    open_ = [type(build(limits)).__module__ for build in (*DETECTORS, *EVENT_DETECTORS)]
    found: set[str] = set()
    while open_:
        module = open_.pop()
        path = root / _path(module)
        if module in found or not path.is_file():
            continue
        found.add(module)
        tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        imports = (node.module or "" for node in tree if isinstance(node, ast.ImportFrom))
        open_ += [name for name in imports if name.startswith(_PACKAGES)]
    return found


def _of_module(root: Path, module: str) -> Iterator[Number]:
    text = (root / _path(module)).read_text(encoding="utf-8")
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and node.name.endswith("Limits"):
            yield from _of_limits(module, node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            yield from _of_assignment(module, node, lines)


def _of_assignment(module: str, node: ast.Assign | ast.AnnAssign, lines: Sequence[str]) -> Iterator[Number]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
    if node.value is None or not all(_CONSTANT.fullmatch(name) for name in names) or not _is_number(node.value):
        return
    if all(_NO_NUMBER.fullmatch(name) for name in names):
        return
    yield Number(
        module=module,
        line=node.lineno,
        name=", ".join(names),
        value=_short(node.value),
        ground=_comment(lines, node.lineno - 1, node.end_lineno or node.lineno),
    )


def _of_limits(module: str, node: ast.ClassDef) -> Iterator[Number]:
    stated = _parameters(ast.get_docstring(node) or "")
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and field.value is not None:
            name = field.target.id
            if _is_number(field.value):
                yield Number(
                    module=module,
                    line=field.lineno,
                    name=f"{node.name}.{name}",
                    value=_short(field.value),
                    ground=stated.get(name, ""),
                )


def _parameters(doc: str) -> dict[str, str]:
    """Return the description of each parameter of a docstring in numpydoc's form; names may share one."""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in inspect.cleandoc(doc).splitlines():
        if re.fullmatch(r"\w+(, \w+)*", line):
            names = line.split(", ")
        elif line.startswith("    "):
            for name in names:
                found[name] = f"{found.get(name, '')} {line.strip()}".strip()
    return found


def _is_number(value: ast.expr) -> bool:
    """Return True for an expression of numbers that builds no object and no array."""
    if any(isinstance(node, ast.Call | ast.Lambda | ast.Attribute) for node in ast.walk(value)):
        return _is_duration(value)
    return any(
        isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)
        for node in ast.walk(value)
    )


def _is_duration(value: ast.expr) -> bool:
    """Return True for hold times, which are written as ``Holds.of_seconds(set_s=1.0, clear_s=5.0)``."""
    return isinstance(value, ast.Call) and ast.unparse(value.func) in {"Holds", "Holds.of_seconds"}


def _short(value: ast.expr) -> str:
    text = ast.unparse(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


def _comment(lines: Sequence[str], first: int, stop: int) -> str:
    """Return the comment behind an assignment, and the one above its block of lines."""
    row = first - 1
    while row >= 0 and lines[row].strip() and not lines[row].startswith("#"):
        row -= 1
    above: list[str] = []
    while row >= 0 and lines[row].startswith("#"):
        above.insert(0, lines[row].lstrip("# "))
        row -= 1
    behind = [line.split("  # ", 1)[1] for line in lines[first:stop] if "  # " in line]
    text = " ".join(line for line in (*above, *behind) if not line.startswith(("fmt:", "noqa", "type:")))
    return re.sub(r"\s*#?\s*fmt: skip|\s*noqa: \S+", "", text).strip()
