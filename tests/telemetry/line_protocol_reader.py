"""A reader of line protocol by its written grammar, as an oracle for what the encoder writes."""

import re
from dataclasses import dataclass

_TAG = re.compile(r"(?:[^,= \\]|\\.)+")
_FIELD = re.compile(r'((?:[^,= \\]|\\.)+)=("(?:[^"\\]|\\.)*"|[^,\s]+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    measurement: str
    tags: dict[str, str]
    fields: dict[str, float | str]
    time_ns: int

    @property
    def head(self) -> str:
        return f"{self.measurement} {sorted(self.tags.items())}"


def read_lines(body: bytes) -> list[Line]:
    assert not body or body.endswith(b"\n")
    return [_read(line) for line in body.decode().split("\n")[:-1]]


def _read(line: str) -> Line:
    head = re.match(r"(?:[^ \\]|\\.)+", line)
    assert head is not None, line
    measurement, *tags = re.split(r"(?<!\\),", head[0])
    rest = line[head.end() + 1 :]
    fields: dict[str, float | str] = {}
    at = 0
    while True:
        match = _FIELD.match(rest, at)
        assert match is not None, rest[at:]
        key, value = _plain(match[1]), match[2]
        assert key not in fields
        fields[key] = re.sub(r'\\(["\\])', r"\1", value[1:-1]) if value.startswith('"') else float(value)
        at = match.end() + 1
        if rest[match.end()] == " ":
            break
    pairs = [re.split(r"(?<!\\)=", tag) for tag in tags]
    return Line(
        measurement=_plain(measurement),
        tags={_plain(key): _plain(value) for key, value in pairs},
        fields=fields,
        time_ns=int(rest[at:]),
    )


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
