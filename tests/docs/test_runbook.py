"""The runbooks quote messages that the code prints, and explain every cause."""

import re
from pathlib import Path

import pytest

from telemetry.records import Cause

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("agent", "railwatch", "rules", "telemetry", "analytics")
RUNBOOKS = sorted((ROOT / "docs/runbook").glob("*.md"))
QUOTE = re.compile(r'"([^"]+)"')
# Values in a quoted message, and `...`, stand for any text.
VALUE = re.compile(r"\.\.\.|\b\d+(?:\.\d+)?x?\b|->")
# Messages of other programs.
FOREIGN = {"Invalid user id", "Insufficient Permissions"}


@pytest.fixture(scope="module")
def source() -> str:
    """All string literals of the code run together, so that a message split over lines is found."""
    text = "".join(path.read_text(encoding="utf-8") for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return re.sub(r'"\s*f?"', "", text)


def quotes_of(page: Path) -> list[str]:
    """Return the quoted messages in the first column of the page's table of messages."""
    table = page.read_text(encoding="utf-8").partition("## Messages\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("|")]
    return [quote for cell in cells for quote in QUOTE.findall(cell)]


@pytest.mark.parametrize("page", [page for page in RUNBOOKS if page.name != "causes.md"], ids=lambda page: page.stem)
def test_every_quoted_message_is_one_of_the_code(page: Path, source: str) -> None:
    for quote in quotes_of(page):
        if quote in FOREIGN:
            continue
        for part in VALUE.split(quote):
            assert part.strip(" ,;:()") in source, f"{page.name}: {quote!r}: {part!r} is printed nowhere"


def test_messages_are_quoted() -> None:
    assert sum(len(quotes_of(page)) for page in RUNBOOKS) > 30


def test_every_cause_has_a_section() -> None:
    text = (ROOT / "docs/runbook/causes.md").read_text(encoding="utf-8")
    assert [cause for cause in Cause if f"\n## `{cause}`\n" not in text] == []
