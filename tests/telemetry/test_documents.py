from pathlib import Path
from typing import Annotated, Literal

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field, RootModel

from telemetry.documents import load_document, read_yaml
from telemetry.durations import DurationS, SizeBytes, format_duration, format_size, parse_duration_s, parse_size_bytes
from telemetry.errors import ConfigError, Problem


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    hold: DurationS = 1.0
    share: float = Field(default=0.5, ge=0, le=1)
    token: str | None = Field(default=None, min_length=8)


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    inner: Inner = Inner()
    steps: tuple[Inner, ...] = ()


class One(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["one"]
    size: int


class Two(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["two"]


class Either(RootModel[Annotated[One | Two, Field(discriminator="kind")]]):
    """A document of one of two shapes."""


def problems_in(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "file.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_document(Outer, path)
    return [str(problem).removeprefix(f"{path}:") for problem in caught.value.problems]


def test_every_problem_is_reported_with_its_line_and_key(tmp_path: Path) -> None:
    found = problems_in(
        tmp_path, "inner:\n  hold: 30\n  share: 1.5\n  colour: red\nsteps:\n  - hold: 1s\n  - share: x\n"
    )
    assert found == [
        "1: name: missing; expected a value: the key is required",
        "2: inner.hold: got 30; expected a duration with its unit, such as 200ms, 30s, 10m, 1h or 7d",
        "3: inner.share: got 1.5; expected at most 1",
        "4: inner.colour: unknown key; expected one of the known keys",
        "7: steps[1].share: got 'x'; expected a number",
    ]


def test_a_wrong_value_of_a_whole_page_is_shown_by_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "long.yaml"
    path.write_text(f"name: box\ninner: {{share: {'x' * 100_000}}}\n")
    with pytest.raises(ConfigError) as caught:
        load_document(Outer, path)
    (problem,) = caught.value.problems
    assert problem.found == f"got '{'x' * 199}... (100002 characters)"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("name: a\nstep: []\n", "2: step: unknown key; expected one of the known keys, perhaps steps"),
        (
            "name: a\nsteps:\n  - shares: 0.1\n",
            "3: steps[0].shares: unknown key; expected one of the known keys, perhaps share",
        ),
        ("name: a\ninner: {names: b}\n", "2: inner.names: unknown key; expected one of the known keys"),
    ],
)
def test_an_unknown_key_is_reported_with_the_known_one_it_resembles(tmp_path: Path, text: str, hint: str) -> None:
    assert problems_in(tmp_path, text) == [hint]


def test_a_problem_in_one_of_several_shapes_is_at_its_own_key(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text("kind: one\nsise: 3\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_document(Either, path)
    found = [(problem.line, problem.key, problem.expected) for problem in caught.value.problems]
    assert (2, "sise", "one of the known keys, perhaps size") in found


def test_a_list_is_not_ordered_to_be_too_short_because_its_items_do_not_fit(tmp_path: Path) -> None:
    class Listed(BaseModel):
        items: tuple[Inner, ...] = Field(min_length=1)

    path = tmp_path / "file.yaml"
    for text, expected in (
        ("items: [{share: 2}]\n", "items[0].share: got 2; expected at most 1"),
        ("items: []\n", "items: got []; expected at least 1 item"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError) as caught:
            load_document(Listed, path)
        assert [str(problem) for problem in caught.value.problems] == [f"{path}:1: {expected}"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kind: three\n", "kind: got 'three'; expected one of 'one', 'two'"),
        ("size: 3\n", "kind: missing; expected a value: the key is required"),
        ("kind: one\nsize: 1.5\n", "size: got 1.5; expected a whole number"),
    ],
)
def test_one_of_several_shapes_is_reported_at_the_key_that_decides(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_document(Either, path)
    assert [str(problem).partition(": ")[2] for problem in caught.value.problems] == [expected]


def test_a_problem_with_an_option_is_reported_without_a_key() -> None:
    problem = Problem(where="--tier", line=None, key="", found="got 'c'", expected="a or b")
    assert str(problem) == "--tier: got 'c'; expected a or b"


def test_a_duplicate_key_is_refused(tmp_path: Path) -> None:
    assert problems_in(tmp_path, "name: a\nname: b\n") == [
        "2: name: duplicate key; expected the key once: first on line 1"
    ]


def test_text_that_is_not_yaml_names_the_line(tmp_path: Path) -> None:
    (found,) = problems_in(tmp_path, "name: [1\ninner: x\n")
    assert found.startswith("2: (document): ")


def test_a_secret_is_never_repeated(tmp_path: Path) -> None:
    (found,) = problems_in(tmp_path, "name: a\ninner:\n  token: hunter2\n")
    assert "hunter2" not in found
    assert found.startswith("3: inner.token: ")


def test_a_missing_file_states_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no\.yaml: \(file\): No such file or directory; expected a readable YAML"):
        load_document(Outer, tmp_path / "no.yaml")


def test_an_empty_document_is_an_empty_mapping() -> None:
    assert read_yaml("", where="x") == ({}, {})


@pytest.mark.parametrize(("text", "seconds"), [("200ms", 0.2), ("30s", 30.0), ("1.5h", 5400.0), ("7d", 604800.0)])
def test_durations_carry_their_unit(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == pytest.approx(seconds)
    assert parse_duration_s(format_duration(seconds)) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["30", "s", "-3s", "3 weeks", "", 30, None])
def test_a_duration_without_a_known_unit_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="a duration with its unit"):
        parse_duration_s(text)


def test_sizes_carry_their_unit() -> None:
    class Sized(BaseModel):
        size: SizeBytes

    assert Sized.model_validate({"size": "64MiB"}).size == 64 << 20
    assert format_size(64 << 20) == "64MiB"
    with pytest.raises(ValueError, match="a size with its unit"):
        parse_size_bytes("64MB")


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000, "{a: " * 50_000])
def test_a_text_with_more_levels_than_a_stack_holds_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        read_yaml(text, where="deep.yaml")


@pytest.mark.parametrize(
    "text", ["a: {b?c: 1}", "a:\n\t- 1", "a: [1", "a: °C", "a: &x [1]\nb: *x", "a: >-\n  1\n  2\nb: "]
)
def test_texts_are_read_alike_with_and_without_libyaml(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def result() -> object:
        try:
            return read_yaml(text, where="a.yaml")
        except ConfigError as err:
            return err.problems

    with_it = result()
    monkeypatch.setattr(yaml, "__with_libyaml__", False)
    assert with_it == result()
