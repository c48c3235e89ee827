"""Checks that code and pages use plain words: ``python -m tests.docs.plain_words [FOLDER]``; `make check` runs it.

It refuses docstrings that begin with a banned verb, identifiers, texts, docstrings and comments in which a process
speaks ("tell", "say", "hear") or a person is not named ("nobody"), and phrases that a newcomer has to decode. Text in
backticks is a quote, of a key or of another program, and not checked. CONTRIBUTING has the words to use instead. Exit
status 1 names each place by file and line; ``--count`` prints the counts alone.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FIRST_WORDS = frozenset({"Give", "Gives", "Say", "Says", "Tell", "Tells", "Hear", "Hears", "Let", "Lets"})
SPEECH = frozenset(
    {"tell", "tells", "told", "telling", "teller", "say", "says", "said", "saying", "hear", "hears", "heard", "hearing"}
)
# People without a role: an operator, a caller, a client, another program.
UNNAMED = frozenset({"nobody", "somebody", "whoever"})
# Parts of identifiers. A text is a text, a label, a summary or a message; what an operator sends is a command.
NAME_PARTS = SPEECH | UNNAMED | {"word", "words", "lot", "lots", "loan", "loans", "deed", "deeds", "anew"}
PHRASES = ("own choice", "mohm", "let go of")
# The module names its own list, and the tests of it quote what it refuses.
EXEMPT = frozenset({"tests/docs/plain_words.py", "tests/docs/test_plain_words.py"})

_TEXT = re.compile(rf"\b({'|'.join(sorted(SPEECH))})\b", re.IGNORECASE)
_REMARK = re.compile(rf"\b({'|'.join(sorted(SPEECH | UNNAMED))})\b", re.IGNORECASE)
_QUOTE = re.compile(r"``[^`\n]*``|`[^`\n]*`")
# Whole words: `_mohm` as the unit of a name is fine, "6.1 mohm" in a text is not.
_PHRASE = re.compile(rf"\b({'|'.join(map(re.escape, PHRASES))})\b", re.IGNORECASE)
# Code of a Markdown page: blocks, and spans within a paragraph.
_CODE = re.compile(r"^```.*?^```|`[^`]*`", re.MULTILINE | re.DOTALL)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Place that is refused; `kind` groups places in the counts."""

    kind: str
    path: str
    line: int
    found: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind}: {self.found}"


def parts_of(name: str) -> frozenset[str]:
    """Return the lower-case parts of an identifier: ``told_ns`` and ``ToldNs`` are both ``told`` and ``ns``."""
    return frozenset(part.lower() for piece in name.split("_") for part in _HUMP.split(piece) if part)


def docstring_places(path: str, tree: ast.Module) -> Iterator[Place]:
    """Yield docstrings that begin with a banned word, and lines of them in which something speaks."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            text = ast.get_docstring(node, clean=False)
            if not text or not text.strip():
                continue
            begin = node.body[0].lineno
            if text.split()[0] in FIRST_WORDS:
                yield Place(kind="docstring", path=path, line=begin, found=text.strip().split("\n")[0][:60])
            yield from remark_places(path, text, begin)


def remark_places(path: str, text: str, begin: int = 1) -> Iterator[Place]:
    """Yield lines in which something speaks or a person is not named, of a text that begins in line `begin`."""
    if _REMARK.search(text) is None:  # nearly all
        return
    for number, line in enumerate(text.split("\n"), start=begin):
        if _REMARK.search(_QUOTE.sub("", line)):
            yield Place(kind="comment", path=path, line=number, found=line.strip()[:80])


def token_places(path: str, source: str) -> Iterator[Place]:
    """Yield comments in which something speaks, and identifiers with a banned part, each name once a file."""
    seen: set[str] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string not in seen and parts_of(token.string) & NAME_PARTS:
            seen.add(token.string)
            yield Place(kind="identifier", path=path, line=token.start[0], found=token.string)
        elif token.type == tokenize.COMMENT:
            yield from remark_places(path, token.string, token.start[0])


def text_places(path: str, tree: ast.Module) -> Iterator[Place]:
    """Yield string literals, docstrings aside, in which something speaks: logs, help, errors, summaries."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            found = _TEXT.search(node.value)
            # One word alone is a key of data on disk or on the wire, not a text.
            if found and len(node.value.split()) > 1:
                yield Place(kind="text", path=path, line=node.lineno, found=node.value.strip()[:80])


def phrase_places(path: str, source: str) -> Iterator[Place]:
    """Yield lines that hold a banned phrase."""
    for number, line in enumerate(source.splitlines(), start=1):
        if found := _PHRASE.search(line):
            yield Place(kind="phrase", path=path, line=number, found=found.group())


def prose_places(path: str, source: str) -> Iterator[Place]:
    """Yield lines of a Markdown page in which something speaks; code is left out."""
    prose = _CODE.sub(lambda code: "\n" * code.group().count("\n"), source)
    for number, line in enumerate(prose.splitlines(), start=1):
        if _TEXT.search(line):
            yield Place(kind="text", path=path, line=number, found=line.strip()[:80])


def places_in(path: str, source: str) -> tuple[Place, ...]:
    """Return what is refused in one file, given by its path relative to the root and its text."""
    places = list(phrase_places(path, source))
    if path.endswith(".py"):
        tree = ast.parse(source)
        places += docstring_places(path, tree)
        places += token_places(path, source)
        if not path.startswith("tests/"):
            places += text_places(path, tree)
    elif not path.endswith(".md"):  # comments, and descriptions among the values
        places += remark_places(path, source)
    elif path != "CONTRIBUTING.md":  # it names the words to avoid
        places += prose_places(path, source)
    return tuple(places)


def tracked(root: Path) -> tuple[str, ...]:
    """Return tracked files whose language is checked; the changelog quotes earlier names."""
    names = subprocess.run(
        ["git", "-C", str(root), "ls-files", "*.py", "*.yaml", "*.md", "*.js", "*.sh", "*.c", "*.h"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return tuple(name for name in names if name not in EXEMPT and name != "CHANGELOG.md" if (root / name).is_file())


def main(arguments: list[str]) -> int:
    """Print what is refused below a folder, and the counts; return the exit status."""
    folders = [argument for argument in arguments if not argument.startswith("-")]
    root = Path(folders[0] if folders else ".")
    places = [place for name in tracked(root) for place in places_in(name, (root / name).read_text(encoding="utf-8"))]
    if "--count" not in arguments:
        for place in places:
            print(place)
    counts = Counter(place.kind for place in places)
    print(", ".join(f"{kind} {counts[kind]}" for kind in ("docstring", "comment", "identifier", "text", "phrase")))
    return 1 if places else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
