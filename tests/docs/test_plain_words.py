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
        ("LIMIT = 3  # the driver says so\n", "comment"),
        ("# Nobody reads it.\nLIMIT = 3\n", "comment"),
        (
            'def f() -> int:\n    """Return a row.\n\n    The header tells how old it is.\n    """\n    return 1\n',
            "comment",
        ),
        ("def test_whoever_waits_is_woken() -> None: ...\n", "identifier"),
    ],
)
def test_each_kind_of_place_is_refused(source: str, kind: str) -> None:
    assert kinds("agent/ring.py", source) == [kind]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("rules/cap.yaml", "lease: 60s # as the standard says\n"),
        ("rules/cap.yaml", "why: The driver tells of it.\n"),
        ("page/rails.js", "const LIMIT = 3; // nobody looks longer\n"),
        ("page/rails.js", "/*\n * What the node said last.\n */\n"),
        ("tools/start.sh", "# Tell systemd.\n"),
        ("driver/nvml.c", "/* Told once. */\n"),
    ],
)
def test_comments_and_descriptions_of_other_languages_are_checked(path: str, source: str) -> None:
    assert kinds(path, source) == ["comment"]


def test_a_comment_is_named_by_its_own_line() -> None:
    source = '"""Module.\n\nIt says so.\n"""\n\n# A line,\n# and what it said.\n'
    assert [place.line for place in places_in("agent/ring.py", source)] == [3, 7]


@pytest.mark.parametrize("path", ["agent/ring.py", "rules/cap.yaml"])
def test_text_in_backticks_is_a_quote(path: str) -> None:
    assert kinds(path, "# The key on disk is `told`; the kernel logs ``GPU says goodbye``.\n") == []


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
