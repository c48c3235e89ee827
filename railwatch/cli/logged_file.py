"""Shared parts of the readers of logged files: opening, delimiter, and values of cells."""

import csv
import gzip
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from telemetry.errors import ConfigError, Problem

# Cells without a value in files of meters and data frames.
_ABSENT = frozenset({"", "nan", "na", "n/a", "null", "none", "-"})
_DECIMAL_COMMA = re.compile(r"[+-]?\d[\d.]*,\d+")
_GZIP_MAGIC = b"\x1f\x8b"
# heuristic: a clock that steps back costs the rows until it has caught up; more is a wrong file.
MAX_BACKWARD_RATIO = 0.1


@contextmanager
def opened(file: Path) -> Iterator[TextIO]:
    """Open a text file, also .gz.

    Raises
    ------
    ConfigError
        The file cannot be read, or is not a table of text.
    """
    try:
        with file.open("rb") as raw:
            packed = raw.read(2) == _GZIP_MAGIC
        open_text = gzip.open if packed else open
        with open_text(file, "rt", encoding="utf-8-sig", newline="") as text:
            yield text
    except UnicodeDecodeError as err:
        raise refused(file, "(file)", "not UTF-8 text", "a CSV file in UTF-8") from err
    except (csv.Error, EOFError, gzip.BadGzipFile) as err:
        raise refused(file, "(file)", str(err), "a CSV file with a header") from err
    except OSError as err:
        raise refused(file, "(file)", reason(err), "a readable file") from err


def delimiter(text: TextIO) -> str:
    """Return the delimiter of the header: comma, semicolon or tab."""
    header = text.readline()
    text.seek(0)
    return max(",;\t", key=header.count)


def number(cell: str) -> float | None:
    """Parse a cell: NaN if empty or infinite, None if not a number."""
    try:
        value = float(cell)
    except ValueError:
        return math.nan if cell.strip().lower() in _ABSENT else None
    return value if math.isfinite(value) else math.nan


def number_expected(cell: str, otherwise: str = "a number") -> str:
    """Return what was expected in a cell that is not a number."""
    return "a number with a decimal point" if _DECIMAL_COMMA.fullmatch(cell.strip()) else otherwise


def iso_moment_s(cell: str) -> float | None:
    """Parse a time in ISO 8601, UTC if it has no zone; None if it is not a time."""
    try:
        moment = datetime.fromisoformat(cell)
    except ValueError:
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def reason(err: Exception) -> str:
    """Return the message of an error in one line."""
    return getattr(err, "strerror", None) or " ".join(str(err).split()) or type(err).__name__


def refused(file: Path, key: str, found: str, expected: str, *, line: int | None = None) -> ConfigError:
    """Return the error of one place in a file."""
    return ConfigError([Problem(where=str(file), line=line, key=key, found=found, expected=expected)])
