"""``railwatch logs``: errors of GPUs, switches and their bus in a kernel log."""

import gzip
import io
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TextIO, cast

import typer

from analytics.catalogue import sxid, xid
from analytics.kernel_log import KernelLogParser, scan, to_fields
from railwatch.cli.printing import print_json
from telemetry.errors import ConfigError

app = typer.Typer(
    no_args_is_help=True,
    help="Find GPU and PCIe errors in kernel logs.",
    epilog="Example: railwatch logs scan /var/log/kern.log",
)

STDIN = Path("-")
# heuristic: number of driver lines printed that the parser does not understand.
SHOWN = 5
GZIP_MAGIC = b"\x1f\x8b"


@app.command(name="scan", epilog="Example: journalctl -k | railwatch logs scan - --json")
def scan_command(
    file: Annotated[Path, typer.Argument(help="Kernel log as text (also .gz); - reads standard input.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per event.")] = False,
) -> None:
    """List every Xid, SXid, bus drop, driver error and PCIe error of a kernel log; lines count from 1."""
    parser = KernelLogParser()
    counts: Counter[str] = Counter()
    with _opened(file) as lines:
        for event in scan(_lines_of(lines, file), parser):
            fields = to_fields(event)
            counts[fields["kind"]] += 1
            if as_json:
                print_json(fields)
            else:
                typer.echo(_sentence(fields))
    if not as_json:
        for number, text in parser.unparsed[-SHOWN:]:
            typer.echo(f"{number:>7}  not understood: {text}", err=True)
        found = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "no errors"
        typer.echo(f"{file}: {found}; {parser.unparsed_count} driver lines not understood", err=True)


def _sentence(fields: dict[str, Any]) -> str:
    code = fields["code"]
    entry = None if code is None else (sxid(code) if fields["kind"] == "sxid" else xid(code))
    parts = [f"{fields['line']:>7}", f"{fields['kind']:<12}", f"{'' if code is None else code!s:<6}"]
    parts.append(f"{fields['pci'] or 'address unknown':<14}")
    who = "" if fields["pid"] is None else f"pid {fields['pid']} {fields['process'] or ''}".strip()
    what = entry.name if entry is not None else fields.get("message", "")
    return "  ".join(part for part in (*parts, who, what) if part)


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """Open a log for reading; a byte that is no UTF-8 is kept as an escape, so that no line is lost."""
    try:
        raw = sys.stdin.buffer if path == STDIN else path.open("rb")
    except OSError as err:
        raise ConfigError.at(path, err.strerror or "", "a kernel log", key="(file)") from err
    with raw:
        packed = cast("io.BufferedReader", raw).peek(2)[:2] == GZIP_MAGIC
        stream = gzip.open(raw) if packed else raw  # noqa: SIM115 -- closed with raw
        yield io.TextIOWrapper(stream, encoding="utf-8", errors="backslashreplace", newline="\n")


def _lines_of(lines: TextIO, path: Path) -> Iterator[str]:
    try:
        yield from lines
    except (gzip.BadGzipFile, EOFError, OSError) as err:
        raise ConfigError.at(path, str(err), "a log that can be read", key="(file)") from err
