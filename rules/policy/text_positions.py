"""Where in a YAML file one character of a text value stands."""

import yaml


def scalar_place(document: str, key: str, at: int) -> tuple[int | None, int | None]:
    """Return line and column, from 1, of character `at` of the text under a top-level key.

    None and None where the text stands there in a form that cannot be counted back, such as with escapes in it.
    """
    root = yaml.compose(document, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        return None, None
    node = next((value for name, value in root.value if getattr(name, "value", None) == key), None)
    if not isinstance(node, yaml.ScalarNode):
        return None, None
    joiner = "\n" if node.style == "|" else " "
    rows = _rows(document, node)
    if joiner.join(text for _, _, text in rows).rstrip() != node.value.rstrip():
        return None, None
    for line, column, text in rows:
        if at <= len(text):
            return line + 1, column + at + 1
        at -= len(text) + len(joiner)
    return None, None


def _rows(document: str, node: yaml.ScalarNode) -> list[tuple[int, int, str]]:
    """Return the lines of a value as line, column and text, counted from 0 and without their indentation."""
    lines = document.splitlines()
    first, last = node.start_mark, node.end_mark
    rows = []
    for number in range(first.line, min(last.line + 1, len(lines))):
        begin = first.column if number == first.line else 0
        end = last.column if number == last.line else len(lines[number])
        if node.style in ("|", ">"):
            if number == first.line:
                continue  # the mark of the block, with its chomping
        elif node.style in ("'", '"'):
            begin += number == first.line
            end -= number == last.line
        text = lines[number][begin:end]
        rows.append((number, begin + len(text) - len(text.lstrip()), text.strip()))
    while rows and not rows[-1][2]:
        rows.pop()
    return rows
