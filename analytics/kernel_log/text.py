"""Taking off what a terminal, a log daemon or a web page put around the kernel's words."""

import json
import re

_COLOUR = re.compile(r"(?:\x1b|\^\[|#033|\\033|\\x1b)\[[0-9;]{0,16}[A-Za-z]")
# One kernel record may hold several lines: /dev/kmsg writes the break as \x0a, rsyslog as #012, JSON as \n.
_BREAK = re.compile(r"[\r\n]+|(?:\\x0a|\\n|#012)(?=\s{0,64}NVRM)")
# What a web page makes of "<unknown>" and its quotes. html.unescape raises on a number that is too long.
_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#39;", "'"), ("&#x27;", "'"), ("&amp;", "&"))
_JSON_KEYS = ("MESSAGE", "message", "msg", "log")


def plain_lines(text: str) -> tuple[str, ...]:
    """Return the lines of the kernel in one line of a file, without colours, entities and control characters."""
    if text.lstrip().startswith("{"):
        text = _json_message(text)
    text = text.replace("\x00", "").replace("\xa0", " ")
    if "\x1b" in text or "033[" in text or "^[[" in text or "x1b[" in text:
        text = _COLOUR.sub("", text)
    if "&" in text:
        for entity, character in _ENTITIES:
            text = text.replace(entity, character)
    return tuple(line for line in _BREAK.split(text) if line)


def _json_message(text: str) -> str:
    """Return the message of a ``journalctl -o json`` or container log line, the text itself where it is none."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(fields, dict):
        for key in _JSON_KEYS:
            if isinstance(fields.get(key), str):
                return str(fields[key])
    return text
