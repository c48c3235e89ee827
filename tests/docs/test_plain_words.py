"""The checker of plain words refuses what it should, and nothing else."""

import pytest

from tests.docs.plain_words import parts_of, places_in

PLAIN = '''"""Ring buffer of rows, one writer."""

def newest(row: int) -> int:
    """Return the newest row."""
    raise ValueError("row is missing: expected a whole number")
'''


def kinds(path: str, source: str) -> list[str]:
    return [place.kind for place in places_in(path, source)]


def test_plain_code_is_accepted() -> None:
    assert kinds("agent/ring.py", PLAIN) == []


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ('def f() -> int:\n    """Give the newest row."""\n    return 1\n', "docstring"),
        ("told_ns = 1\n", "identifier"),
        ("class RunTold:\n    pass\n", "identifier"),
        ("def f(words: str) -> None: ...\n", "identifier"),
        ('log("the driver was told to stop")\n', "text"),
        ("LIMIT = 3  # own choice\n", "phrase"),
    ],
)
def test_each_kind_of_place_is_refused(source: str, kind: str) -> None:
    assert kinds("agent/ring.py", source) == [kind]


def test_a_key_of_data_on_disk_is_no_text() -> None:
    assert kinds("agent/ring.py", 'row = {"told": 1}\n') == []


def test_texts_that_tests_expect_are_left_to_the_code_that_writes_them() -> None:
    assert kinds("tests/agent/test_ring.py", 'expected = "it was told so"\n') == []


def test_parts_are_whole_words_of_a_name() -> None:
    assert parts_of("password_Storey2") == {"password", "storey2"}
    assert parts_of("FleetDeed") == {"fleet", "deed"}


def test_a_page_is_checked_outside_of_its_code() -> None:
    page = "The guard reports it.\n\n```text\nhe said so\n```\n\n`told` is a key.\n"
    assert kinds("docs/page.md", page) == []
    assert kinds("docs/page.md", page + "The log tells why.\n") == ["text"]
