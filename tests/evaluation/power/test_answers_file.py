from pathlib import Path

import numpy as np
import pytest

from evaluation.power.answers_file import read_answers
from evaluation.power.cases import Case, cases_of
from evaluation.power.chains import START_NS, Half
from evaluation.power.plan import AnswerKind, Track, load_plan
from telemetry.clock import NS_PER_S
from telemetry.errors import ConfigError
from tests.evaluation.power.made_up import feed_chain, node_chain

HEAD = "case,time_s,entity,kind,score"


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    chains = [feed_chain(400), feed_chain(400, half=Half.CALIBRATION), node_chain(400)]
    return cases_of(chains, load_plan(), draws=1)


def ids(cases: list[Case], track: Track = Track.FEEDS) -> list[str]:
    return [case.id for case in cases if case.chain.track is track]


def write(tmp_path: Path, *lines: str, head: str = HEAD) -> Path:
    path = tmp_path / "theirs.csv"
    path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return path


def silent(cases: list[Case], but: str = "") -> list[str]:
    return [f"{one},,,," for one in ids(cases) if one != but]


def refused(path: Path, cases: list[Case]) -> list[str]:
    with pytest.raises(ConfigError) as error:
        read_answers(path, cases)
    return [str(problem).removeprefix(str(path)) for problem in error.value.problems]


def test_answers_are_grouped_by_entity_and_kind_in_order_of_time(tmp_path: Path, cases: list[Case]) -> None:
    one = ids(cases)[0]
    lines = [f"{one},20,feed1,contact,2.5", f"{one},10.5,feed1,contact,1.5", f"{one},30,,,0.5", *silent(cases, one)]
    given = read_answers(write(tmp_path, *lines), cases)
    assert given.name == "theirs"
    assert given.tracks == {Track.FEEDS}
    feed1, whole = given.by_case[one]
    assert (feed1.entity, feed1.kind) == ("feed1", AnswerKind.CONTACT)
    assert ((feed1.time_ns - START_NS) / NS_PER_S).tolist() == [10.5, 20.0]
    assert feed1.score.tolist() == [1.5, 2.5]
    assert (whole.entity, whole.kind) == ("", AnswerKind.NONE)
    assert {case.id for case in given.cases} == set(ids(cases))


def test_columns_may_come_in_any_order_with_a_mark_before_them_and_without_those_that_are_optional(
    tmp_path: Path, cases: list[Case]
) -> None:
    path = write(tmp_path, *(f",{one}" for one in ids(cases)[1:]), f"5,{ids(cases)[0]}", head="\ufefftime_s,case")
    (answer,) = read_answers(path, cases).by_case[ids(cases)[0]]
    assert np.isinf(answer.score).all()


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ("{},x,,,", ":2: time_s: got 'x'; expected a number from 0 to 399, the length of the case"),
        ("{},-1,,,", ":2: time_s: got '-1'; expected a number from 0 to 399, the length of the case"),
        ("{},400.5,,,", ":2: time_s: got '400.5'; expected a number from 0 to 399, the length of the case"),
        ("{},nan,,,", ":2: time_s: got 'nan'; expected a number from 0 to 399, the length of the case"),
        ("{},1,feed7,,", ":2: entity: got 'feed7'; expected empty or one of feed0, feed1, feed2"),
        ("{},1,,fire,", ":2: kind: got 'fire'; expected empty or one of contact, sag"),
        ("{},1,,sag,high", ":2: score: got 'high'; expected a number"),
        ("{},1,,sag,inf", ":2: score: got 'inf'; expected a number"),
        ("{},,feed1,,", ":2: time_s: empty; expected seconds from the first row"),
        ("{},1,,,,6", ":2: more cells than columns; expected as many as in the first line"),
        ("feeds-0000-0000,1,,,", ":2: case: got 'feeds-0000-0000'; expected a case of index.csv"),
    ],
)
def test_a_wrong_cell_is_named_by_file_line_column_and_what_was_expected(
    tmp_path: Path, cases: list[Case], cells: str, problem: str
) -> None:
    lines = [cells.format(ids(cases)[0]), *silent(cases, ids(cases)[0])]
    (found,) = refused(write(tmp_path, *lines), cases)
    assert found.startswith(problem)


def test_all_problems_of_a_file_are_named_at_once(tmp_path: Path, cases: list[Case]) -> None:
    one = ids(cases)[0]
    lines = [f"{one},x,,,", *silent(cases, one), f"{one},1,feed9,,"]
    first, second = refused(write(tmp_path, *lines), cases)
    assert first.startswith(":2: time_s")
    assert second.startswith(f":{len(lines) + 1}: entity")
    assert len(refused(write(tmp_path, *[f"{one},x,,,"] * 50), cases)) == 20


def test_a_header_without_its_columns_or_with_others_is_refused(tmp_path: Path, cases: list[Case]) -> None:
    assert refused(write(tmp_path, head="case,when"), cases) == [
        ":1: time_s: no such column; expected a header with case, time_s, entity, kind, score",
        ":1: when: unknown or repeated column; expected case, time_s, entity, kind, score",
    ]
    assert refused(write(tmp_path, head="case,time_s,time_s"), cases)[0].startswith(":1: time_s: unknown or repeated")


def test_a_track_that_is_answered_in_part_is_refused_and_one_left_out_is_not(tmp_path: Path, cases: list[Case]) -> None:
    missing = sorted(ids(cases))[1]
    count = len(ids(cases))
    (found,) = refused(write(tmp_path, *silent(cases, missing)), cases)
    assert found.startswith(
        f": case: no line for 1 of {count} cases of feeds, such as {missing}; expected a line for each"
    )
    assert read_answers(write(tmp_path, *silent(cases)), cases).tracks == {Track.FEEDS}
    assert refused(write(tmp_path), cases) == [": no answers; expected a line for each case of a track"]


def test_scores_are_for_all_answers_of_a_track_or_for_none(tmp_path: Path, cases: list[Case]) -> None:
    one = ids(cases)[0]
    lines = [f"{one},1,,,2.0", f"{one},2,,,", *silent(cases, one)]
    assert refused(write(tmp_path, *lines), cases) == [
        ": score: 1 of 2 answers of feeds have no score; expected one for all of a track, or none"
    ]


def test_what_is_no_readable_text_is_refused_in_one_line(tmp_path: Path, cases: list[Case]) -> None:
    path = tmp_path / "theirs.csv"
    assert "cannot be read" in refused(path, cases)[0]
    path.write_bytes(b"case,time_s\n\xff\xfe\n")
    assert "cannot be read" in refused(path, cases)[0]
    assert "cannot be read" in refused(tmp_path, cases)[0]
