import numpy as np

from analytics.judged import DIPS, PATHS, Judged, JudgedPair, JudgedSpans, judged_entities
from tests.analytics.scenes import supply

PSUS = tuple(supply(number) for number in range(3))
BOTH = frozenset({PSUS[0].id, PSUS[1].id})


def dips(*until_ns: int, subject: tuple[bool, ...] = (True, True, True), since_ns: int = 100) -> Judged:
    span = JudgedSpans(
        detector=DIPS,
        entities=PSUS[: len(until_ns)],
        subject=np.array(subject[: len(until_ns)]),
        since_ns=np.full(len(until_ns), since_ns, dtype=np.int64),
        until_ns=np.array(until_ns, dtype=np.int64),
    )
    return Judged(spans=(span,))


def test_entities_were_judged_where_their_spans_cover_the_whole_time() -> None:
    judged = dips(200, 200)
    assert judged.throughout(DIPS, BOTH, since_ns=100, until_ns=200) == BOTH
    assert judged.throughout(DIPS, BOTH, since_ns=99, until_ns=200) == frozenset()
    assert judged.throughout(DIPS, BOTH, since_ns=100, until_ns=201) == frozenset()
    assert judged.throughout(PATHS, BOTH, since_ns=100, until_ns=200) == frozenset()


def test_one_subject_that_was_not_judged_leaves_the_silence_of_all_without_meaning() -> None:
    assert dips(200, -1).throughout(DIPS, BOTH, since_ns=100, until_ns=200) == frozenset()


def test_what_is_no_subject_of_a_detector_hides_nothing_from_it() -> None:
    judged = dips(200, -1, subject=(True, False, True))
    assert judged.throughout(DIPS, BOTH, since_ns=100, until_ns=200) == {PSUS[0].id}


def test_an_entity_of_two_tables_was_judged_where_one_of_them_shows_it() -> None:
    judged = Judged(spans=(*dips(150, 200).spans, *dips(200, 200).spans))
    assert judged.throughout(DIPS, BOTH, since_ns=100, until_ns=200) == BOTH


def test_entities_that_were_judged_once_are_known_by_their_span() -> None:
    assert dips(200, -1, 300).any_of(DIPS, {one.id for one in PSUS}) == {PSUS[0].id, PSUS[2].id}


def test_pairs_are_read_by_finding_and_detector() -> None:
    pairs = {JudgedPair("f", DIPS, "b"), JudgedPair("f", DIPS, "a"), JudgedPair("f", PATHS, "c")}
    assert judged_entities(pairs, "f", DIPS) == ("a", "b")
    assert judged_entities(pairs, "g", DIPS) == ()
