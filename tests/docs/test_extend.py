"""The page on extensions: every path on it exists, and every list is in the file that it names."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how-to/extend.md").read_text(encoding="utf-8")
PATHS = sorted(set(re.findall(r"`([\w.-]+(?:/[\w.-]+)+)`", PAGE)))
LISTS = sorted(set(re.findall(r"`(\w+)` (?:or `\w+` )?(?:in|of) `([\w/.-]+\.py)`", PAGE)))
LISTS += sorted(set(re.findall(r"or `(\w+)` (?:in|of) `([\w/.-]+\.py)`", PAGE)))


def test_the_page_names_paths_and_lists() -> None:
    assert len(PATHS) > 30
    assert len(LISTS) > 12


@pytest.mark.parametrize("path", PATHS)
def test_every_path_on_the_page_exists(path: str) -> None:
    target = ROOT / path
    assert target.parent.is_dir() if target.stem == "NAME" else target.exists(), path


@pytest.mark.parametrize(("name", "path"), LISTS)
def test_every_list_is_in_the_file_that_the_page_names(name: str, path: str) -> None:
    assert re.search(rf"\b{name}\b", (ROOT / path).read_text(encoding="utf-8")), f"{path} has no {name}"
