"""What all readers of somebody's logged file share: how it is opened, what parts its columns, what a cell says."""

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

# Cells that stand for no value in files of meters and data frames.
_ABSENT = frozenset({"", "nan", "na", "n/a", "null", "none", "-"})
_DECIMAL_COMMA = re.compile(r"[+-]?\d[\d.]*,\d+")
_GZIP_MAGIC = b"\x1f\x8b"
# heuristic: a clock that steps back now and then costs the rows until it has caught up; more is another file.
MAX_BACKWARD_RATIO = 0.1


@contextmanager
def opened(file: Path) -> Iterator[TextIO]:
    """Open a text file, gzip too.

    Raises
    ------
    ConfigError
        It cannot be read, or turns out to be no table of text while it is read.
    """
    try:
        with file.open("rb") as raw:
            packed = raw.read(2) == _GZIP_MAGIC
        how = gzip.open if packed else open
        with how(file, "rt", encoding="utf-8-sig", newline="") as text:
            yield text
    except UnicodeDecodeError as err:
        raise refused(file, "(file)", "not UTF-8 text", "a CSV file in UTF-8") from err
    except (csv.Error, EOFError, gzip.BadGzipFile) as err:
        raise refused(file, "(file)", str(err), "a CSV file with a header") from err
    except OSError as err:
        raise refused(file, "(file)", reason(err), "a file that can be read") from err


def delimiter(text: TextIO) -> str:
    """Return what parts the header's names: a comma, a semicolon or a tab."""
    header = text.readline()
    text.seek(0)
    return max(",;\t", key=header.count)


def number(cell: str) -> float | None:
    """Read a cell: NaN where it is absent or infinite, None where it is no number."""
    try:
        value = float(cell)
    except ValueError:
        return math.nan if cell.strip().lower() in _ABSENT else None
    return value if math.isfinite(value) else math.nan


def number_expected(cell: str, otherwise: str = "a number") -> str:
    """Return what should stand in a cell that is no number."""
    return "a number with a decimal point" if _DECIMAL_COMMA.fullmatch(cell.strip()) else otherwise


def iso_moment_s(cell: str) -> float | None:
    """Read a time in ISO 8601, UTC where it names no zone; None where it is none."""
    try:
        moment = datetime.fromisoformat(cell)
    except ValueError:
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def reason(err: Exception) -> str:
    """Return in one line what an error says."""
    return getattr(err, "strerror", None) or " ".join(str(err).split()) or type(err).__name__


def refused(file: Path, key: str, found: str, expected: str, *, line: int | None = None) -> ConfigError:
    """Return the error of one place in a file."""
    return ConfigError([Problem(where=str(file), line=line, key=key, found=found, expected=expected)])
