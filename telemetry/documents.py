"""YAML documents checked against pydantic models, with every problem reported at once by file, line and key."""

import contextlib
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import yaml
from pydantic import BaseModel, RootModel, ValidationError
from pydantic_core import ErrorDetails

from telemetry.durations import format_duration, parse_duration_s
from telemetry.errors import ConfigError, Problem
from telemetry.key_problems import KeyProblemError, KeyProblemsError

Model = TypeVar("Model", bound=BaseModel)
Lines = dict[tuple[str | int, ...], int]

# No document of railwatch comes near; aliases that refer to aliases would otherwise grow without end.
_DEPTH_MAX = 32
_KEYS_MAX = 20_000
# Signs that may begin a level; the largest document of ours has some 300.
_LEVELS_MAX = 1000

# Byte-order marks of the encodings in which editors of other systems save text (Unicode standard, section 23.8).
_MARKS = ((b"\xff\xfe", "UTF-16 text"), (b"\xfe\xff", "UTF-16 text"))

# Texts of pydantic's kinds of errors: what was expected.
_EXPECTED = {
    "extra_forbidden": "one of the known keys",
    "missing": "a value: the key is required",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
}

# Text of pydantic before and after what it expected: "Input should be", "Tuple should have ..., not 0".
_AROUND = re.compile(r"^(\w+ should (be|have|match) )?(a valid )?|( after validation)?, not \d+$")

# Bounds, by the kind of problem: the key of the bound in the context, and how it is written.
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "less_than_equal": ("le", "at most"),
    "greater_than": ("gt", "above"),
    "less_than": ("lt", "below"),
}
# heuristic: ten times the longest file that comes with railwatch; YAML of 50 MB takes minutes to parse.
SIZE_MAX_BYTES = 1 << 20

# What of an address may be a secret: who logs in, and what stands behind the question mark.
_IN_ADDRESS = re.compile(r"(?<=://)[^/@\s]+(?=@)|(?<=\?)\S+")
# heuristic: what a person still reads of a wrong value; a whole file may be one.
_SHOWN_MAX = 200
_SECRET_KEYS = frozenset({"password", "token"})


def decoded(content: bytes, *, where: str) -> str:
    """Return the text of a file; ConfigError with the line and the byte if it is not UTF-8."""
    marked = next((encoding for mark, encoding in _MARKS if content.startswith(mark)), None)
    if marked is not None:
        raise ConfigError.at(where, marked, "YAML in UTF-8", key="(file)", line=1)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        line = content[: err.start].count(b"\n") + 1
        found = f"byte {content[err.start]:#04x}, which is not UTF-8 text"
        raise ConfigError.at(where, found, "YAML in UTF-8", key="(file)", line=line) from err


def read_yaml(text: str, *, where: str) -> tuple[Any, Lines]:
    """Parse one YAML document.

    Returns
    -------
    The plain data, and the line of each key path, counted from 1.

    Raises
    ------
    ConfigError
        The text is not YAML, holds several documents, names a key twice, or grows beyond what a person writes.
    """
    if len(text) > SIZE_MAX_BYTES:
        found, expected = f"{len(text) / SIZE_MAX_BYTES:.0f} MiB of text", "at most 1 MiB"
        raise ConfigError.at(where, found, expected, key="(file)")
    try:
        node = _reading(lambda: _composed(text), where)
    except ConfigError as err:
        rows = text.splitlines()
        raise ConfigError([_with_tab(problem, rows) for problem in err.problems]) from err
    lines: Lines = {}
    problems: list[Problem] = []
    if node is None:
        return {}, lines
    _walk(node, (), lines, problems, where)
    if problems:
        raise ConfigError(problems)
    # Parsing takes far longer than anything else here, so the text is parsed once.
    return _reading(lambda: yaml.SafeLoader("").construct_document(node), where), lines


def check_document(
    model: type[Model],
    data: Any,
    *,
    where: str,
    lines: Mapping[tuple[str | int, ...], int],
    known: Sequence[Problem] = (),
) -> Model:
    """Validate plain data against a model.

    Raises
    ------
    ConfigError
        The data do not fit, or something is `known` to be wrong: every problem in the order of lines, one for each key.
    """
    try:
        checked = model.model_validate(data)
    except ValidationError as err:
        found = problems_of(err, where=where, lines=lines, model=model)
        keys = {(problem.where, problem.key) for problem in found}
        others = [problem for problem in known if (problem.where, problem.key) not in keys]
        raise ConfigError(in_line_order([*found, *others])) from err
    if known:
        raise ConfigError(in_line_order(known))
    return checked


def in_line_order(problems: Iterable[Problem]) -> list[Problem]:
    """Return problems by their lines, those of one file together, files in the order in which they first appear."""
    unsorted = list(problems)
    files = list(dict.fromkeys(problem.where for problem in unsorted))
    return sorted(unsorted, key=lambda problem: (files.index(problem.where), problem.line or 0))


def load_document(model: type[Model], path: Path) -> Model:
    """Read and validate one YAML file.

    Raises
    ------
    ConfigError
        The file cannot be read, is not YAML or does not fit the model.
    """
    data, lines = read_document(path)
    return check_document(model, data, where=str(path), lines=lines)


def read_document(path: Path) -> tuple[Any, Lines]:
    """Read one YAML file as `read_yaml` does; ConfigError where it cannot be read or is not YAML."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        reason = err.strerror if isinstance(err, OSError) and err.strerror else "not UTF-8 text"
        raise ConfigError.at(path, reason, "a readable YAML file", key="(file)") from err
    return read_yaml(text, where=str(path))


def problems_of(
    err: ValidationError,
    *,
    where: str,
    lines: Mapping[tuple[str | int, ...], int],
    model: type[BaseModel] | None = None,
) -> tuple[Problem, ...]:
    """Return the problems that pydantic found, each at the line of the nearest key that the document has.

    If the `model` is given, the problem of an unknown key names the known one that it resembles.
    """
    details = err.errors(include_url=False)
    above = {tuple(detail["loc"][:depth]) for detail in details for depth in range(len(detail["loc"]))}
    return tuple(
        in_line_order(
            problem
            for detail in details
            # A list of which some items do not fit is too short for pydantic as well, since it counts those that do.
            if not (detail["type"] == "too_short" and tuple(detail["loc"]) in above)
            for problem in _problems_of_detail(detail, where, lines, model)
        )
    )


def problem_at(
    error: KeyProblemError,
    *,
    where: str,
    lines: Mapping[tuple[str | int, ...], int],
    section: tuple[str | int, ...] = (),
) -> Problem:
    """Return the problem of a key of a section, with the line of the nearest key that the document has."""
    path = (*section, *error.path)
    return _problem(where, _line(path, lines), _dotted(path), error.found, error.expected)


def _problems_of_detail(
    detail: ErrorDetails, where: str, lines: Mapping[tuple[str | int, ...], int], model: type[BaseModel] | None
) -> Iterator[Problem]:
    error = detail.get("ctx", {}).get("error")
    known = error.problems if isinstance(error, KeyProblemsError) else [error]
    for one in known:
        if isinstance(one, KeyProblemError):
            yield problem_at(one, where=where, lines=lines, section=_place(detail, lines, model))
        else:
            yield _problem_of(detail, where, lines, model)


def _place(
    detail: ErrorDetails, lines: Mapping[tuple[str | int, ...], int], model: type[BaseModel] | None
) -> tuple[str | int, ...]:
    path = tuple(detail["loc"])
    if model is not None and issubclass(model, RootModel) and len(path) > 1 and path[:1] not in lines:
        return path[1:]  # the tag of a union, which is no key of the document
    return path


def _problem_of(
    detail: ErrorDetails, where: str, lines: Mapping[tuple[str | int, ...], int], model: type[BaseModel] | None
) -> Problem:
    path = _place(detail, lines, model)
    kind, context = detail["type"], detail.get("ctx", {})
    if "discriminator" in context:
        path = (*path, context["discriminator"].strip("'"))
    match kind:
        case "value_error":
            expected, found = str(context["error"]), _found(path, detail["input"])
        case "missing" | "union_tag_not_found":
            expected, found = _EXPECTED["missing"], "missing"
        case "extra_forbidden" | "unexpected_keyword_argument":  # of a model, of a dataclass
            expected, found = _known_key(model, path), "unknown key"
        case "union_tag_invalid":
            expected, found = f"one of {context['expected_tags']}", f"got {context['tag']!r}"
        case _ if kind in _BOUNDS:
            bound, text = _BOUNDS[kind]
            expected, found = f"{text} {_bound(context[bound], detail['input'])}", _found(path, detail["input"])
        case "too_long" if isinstance(detail["input"], list):
            expected, found = f"at most {context['max_length']} items", f"got {len(detail['input'])} items"
        case _:
            expected = _EXPECTED.get(kind) or _AROUND.sub("", detail["msg"])
            found = _found(path, detail["input"], right_type=not kind.endswith("_type"))
    return _problem(where, _line(path, lines), _dotted(path), found, expected)


def _bound(bound: float, given: object) -> str:
    """Return a bound as the value is written: one of a duration with its unit."""
    try:
        parse_duration_s(given if isinstance(given, str) else "")
    except ValueError:
        return f"{bound:.12g}"
    return format_duration(bound) if bound else "0s"


def keys_of(kind: Any) -> Mapping[str, Any]:
    """Return the keys that a model or dataclass has, and the type of each; anything else has none."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {name: field.annotation for name, field in kind.model_fields.items()}
    if isinstance(kind, type) and is_dataclass(kind):
        return get_type_hints(kind)
    return {}


def _known_key(model: type[BaseModel] | None, path: tuple[str | int, ...]) -> str:
    places = [] if model is None else list(_keyed_in(model))
    for part in path[:-1]:  # a tag of a union or an index of a list leads nowhere else
        inner = [child for keys in places if part in keys for child in _keyed_in(keys[str(part)])]
        places = inner or places
    names = sorted({name for keys in places for name in keys})
    nearest = difflib.get_close_matches(str(path[-1]), names, n=1)
    return f"one of the known keys, perhaps {nearest[0]}" if nearest else _EXPECTED["extra_forbidden"]


def _keyed_in(annotation: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the keys of each kind of section that a value of this type may be, inside lists, unions and root models."""
    keys = keys_of(annotation)
    if isinstance(annotation, type) and issubclass(annotation, RootModel):
        yield from _keyed_in(keys["root"])
    elif keys:
        yield keys
    for part in get_args(annotation):
        yield from _keyed_in(part)


def _with_tab(problem: Problem, rows: Sequence[str]) -> Problem:
    """Return the problem of a tab at the start of a line, if there is one; YAML's own message names a token."""
    row = rows[problem.line - 1] if problem.line is not None and problem.line <= len(rows) else ""
    if "\t" not in row[: len(row) - len(row.lstrip())]:
        return problem
    found, expected = "a tab at the start of the line", "spaces: YAML does not allow tabs for indentation"
    return _problem(problem.where, problem.line, problem.key, found, expected)


def _composed(text: str) -> yaml.Node | None:
    """Return the nodes of a document; YAMLError as the loader in Python raises it, with its message.

    libyaml takes a fifteenth of the time: 3 ms for the built-in policies. It gets plain texts alone, since it accepts
    some tabs and question marks that YAML does not allow, and since its composer calls itself for each level: 30,000
    levels overflow the stack of a thread.
    """
    is_plain = text.isascii() and not any(sign in text for sign in "\t?")
    if is_plain and yaml.__with_libyaml__ and sum(map(text.count, "[{-:")) <= _LEVELS_MAX:
        with contextlib.suppress(yaml.YAMLError):
            return yaml.compose(text, Loader=yaml.CSafeLoader)
    return yaml.compose(text, Loader=yaml.SafeLoader)


def _reading(read: Callable[[], Any], where: str) -> Any:
    try:
        return read()
    except yaml.MarkedYAMLError as err:
        mark = err.problem_mark
        line = None if mark is None else mark.line + 1
        why = (err.problem or "not YAML").replace("but got '<stream end>'", "but the file ends")
        raise ConfigError.at(where, f"not valid YAML ({why})", "YAML", key="(document)", line=line) from err
    except yaml.YAMLError as err:  # a byte that no YAML may hold
        raise ConfigError.at(where, str(err).splitlines()[0], "YAML", key="(document)") from err
    except RecursionError as err:
        raise ConfigError.at(where, "nested too deeply", "YAML", key="(document)") from err
    except ValueError as err:  # a date that no calendar has, a number of thousands of digits
        found = "a number of thousands of digits" if "integer string conversion" in str(err) else str(err)
        raise ConfigError.at(where, found, "YAML", key="(document)") from err


def _problem(where: str, line: int | None, key: str, found: str, expected: str) -> Problem:
    return Problem(where=where, line=line, key=key, found=found, expected=expected)


def _found(path: tuple[str | int, ...], value: object, *, right_type: bool = True) -> str:
    if path and path[-1] in _SECRET_KEYS:
        return "invalid value"
    if isinstance(value, dict | BaseModel):
        return "values conflict" if right_type else "got a mapping"
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return "items conflict" if right_type else "got a list"
    if isinstance(value, bool):
        return "got true (also written on or yes)" if value else "got false (also written off or no)"
    if isinstance(value, str):
        value = _IN_ADDRESS.sub("***", value)
    return "got nothing" if value is None else f"got {_shortened(repr(value))}"


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}... ({len(text)} characters)"


def _dotted(path: tuple[str | int, ...]) -> str:
    dotted = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return dotted.removeprefix(".") or "(document)"


def _line(path: tuple[str | int, ...], lines: Mapping[tuple[str | int, ...], int]) -> int | None:
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path)


def _walk(node: yaml.Node, path: tuple[str | int, ...], lines: Lines, problems: list[Problem], where: str) -> None:
    here = node.start_mark.line + 1
    if len(path) > _DEPTH_MAX or len(lines) > _KEYS_MAX:
        if not problems:
            most = f"at most {_KEYS_MAX} keys in {_DEPTH_MAX} levels, aliases counted where they are used"
            problems.append(_problem(where, here, _dotted(path[:4]), "too large", most))
        return
    lines.setdefault(path, here)
    if isinstance(node, yaml.MappingNode):
        for pair in node.value:
            _walk_pair(pair, path, lines, problems, where)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _walk(value, (*path, index), lines, problems, where)


def _walk_pair(
    pair: tuple[yaml.Node, yaml.Node], path: tuple[str | int, ...], lines: Lines, problems: list[Problem], where: str
) -> None:
    key, value = pair
    line = key.start_mark.line + 1
    if not isinstance(key, yaml.ScalarNode):
        problems.append(_problem(where, line, _dotted(path), "a key that is not text", "text before the colon"))
        return
    here = (*path, key.value)
    if here in lines:
        problems.append(
            _problem(where, line, _dotted(here), "duplicate key", f"the key once: first on line {lines[here]}")
        )
        return
    lines[here] = line
    _walk(value, here, lines, problems, where)
