"""Writer and checker of the reference pages that are generated from the code.

``python -m railwatch.reference.generate`` rewrites them; with ``--check`` it lists files that differ and exits with 1.
"""

import sys
from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path

from config.reference import reference_markdown, sample_yaml
from dashboards.grafana import generated_files
from railwatch.reference.cli import cli_markdown
from railwatch.reference.grounds import PAGE, grounds_markdown, without_ground
from railwatch.reference.policy import policy_markdown
from railwatch.reference.records import records_markdown
from rules.policy.document import policy_schema_text
from telemetry.signals import CATALOGUE, SENT_SOURCES

ROOT = Path(__file__).resolve().parents[2]
# Written by hand, except for its generated blocks.
POLICY_PAGE = Path("docs/reference/policy.md")


def signals_markdown() -> str:
    """Return the reference of every signal, by entity."""
    sent = " and ".join(f"`{source.value}`" for source in SENT_SOURCES)
    lines = [
        "# Signal reference",
        "",
        "Generated from the signal catalogue by `make generate`; do not edit.",
        "",
        "A measurement in the store has the name of its entity kind, a field the name of its signal. In rollups",
        "a gauge has the suffixes `_mean`, `_min`, `_max` and `_last`, a counter `_last`, flags `_last` and `_any`.",
        "",
        "*Believed* is the range of plausible values of controllers, meters and other programs; values outside are",
        "refused and counted.",
        "",
        f"No collector reads the sources {sent}: other programs",
        "[send their readings](../how-to/send-your-own-readings.md).",
    ]
    for kind, signals in groupby(CATALOGUE, key=lambda signal: signal.entity):
        lines += ["", f"## `{kind.value}`", "", "| signal | unit | kind | group | source | believed | meaning |"]
        lines += ["| --- | --- | --- | --- | --- | --- | --- |"]
        lines += [
            f"| `{signal.name}` | {signal.unit} | {signal.kind.value} | {signal.rate.value} | {signal.source.value}"
            f" | {signal.range_text} | {signal.meaning} |"
            for signal in signals
        ]
    return "\n".join(lines) + "\n"


def _own_files() -> Mapping[Path, str]:
    return {
        Path("docs/reference/configuration.md"): reference_markdown(),
        Path("docs/reference/signals.md"): signals_markdown(),
        Path("docs/reference/railwatch.sample.yaml"): sample_yaml(),
        Path("docs/reference/cli.md"): cli_markdown(),
        Path("docs/reference/records.md"): records_markdown(),
        PAGE: grounds_markdown(ROOT),
        POLICY_PAGE: policy_markdown((ROOT / POLICY_PAGE).read_text(encoding="utf-8")),
        Path("rules/policy/policy.schema.json"): policy_schema_text(),
    }


GENERATORS: tuple[Callable[[], Mapping[Path, str]], ...] = (_own_files, generated_files)


def stale_files(root: Path) -> dict[Path, str]:
    """Return the files whose committed text differs from the generated one, with the generated text."""
    wanted = {path: text for generate in GENERATORS for path, text in generate().items()}
    return {
        path: text
        for path, text in wanted.items()
        if not (root / path).exists() or (root / path).read_text(encoding="utf-8") != text
    }


def main() -> None:
    """Write or check the generated files."""
    stale = stale_files(ROOT)
    if sys.argv[1:] == ["--check"]:
        groundless = without_ground(ROOT)
        for line in (*(f"{path}: differs from the code; run make generate" for path in stale), *groundless):
            sys.stderr.write(f"{line}\n")
        sys.exit(1 if stale or groundless else 0)
    for path, text in stale.items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text, encoding="utf-8")
        sys.stdout.write(f"wrote {path}\n")


if __name__ == "__main__":
    main()
