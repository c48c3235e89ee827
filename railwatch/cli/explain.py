"""``railwatch explain``: meaning of an Xid, a cause or an incident, and what to do about it."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from analytics.catalogue import CodeExplanation, explain_sxid, explain_xid
from analytics.classification.answers import FAULT_CLASS_GUIDES, SYMPTOM_GUIDES, FaultClassGuide, SymptomGuide
from railwatch.cli.explain_incident import incident
from railwatch.cli.printing import print_json
from railwatch.cli.run_folder import JsonFlag
from telemetry.records import Cause, FaultClass

app = typer.Typer(
    no_args_is_help=True,
    help="Explain an Xid, a cause or an incident, and what to do about it.",
    epilog="Example: railwatch explain xid 79",
)


def _code(text: str) -> int:
    if not text.isdecimal():
        raise typer.BadParameter(f"{text!r}; expected the number in the kernel log, such as 79")
    return int(text)


Code = Annotated[int, typer.Argument(parser=_code, metavar="CODE", help="Number in the kernel log, e.g. 79.")]


@app.command(epilog="Example: railwatch explain xid 79")
def xid(code: Code, as_json: JsonFlag = False) -> None:
    """Explain an Xid of the NVIDIA GPU driver."""
    _print_code(explain_xid(code), f"Xid {code}", as_json=as_json)


@app.command(epilog="Example: railwatch explain sxid 20034")
def sxid(code: Code, as_json: JsonFlag = False) -> None:
    """Explain an SXid of the NVIDIA NVSwitch driver."""
    _print_code(explain_sxid(code), f"SXid {code}", as_json=as_json)


@app.command(epilog="Example: railwatch explain cause joint_ageing")
def cause(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Cause, as incidents list prints it.")],
    as_json: JsonFlag = False,
) -> None:
    """Explain a cause: its meaning, what disproves it or lies behind it, what to check."""
    if name in FAULT_CLASS_GUIDES:
        _print_guide(name, FAULT_CLASS_GUIDES[FaultClass(name)], as_json=as_json)
    elif name in SYMPTOM_GUIDES:
        _print_guide(name, SYMPTOM_GUIDES[Cause(name)], as_json=as_json)
    else:
        known = ", ".join(dict.fromkeys(one.value for one in (*FaultClass, *Cause)))
        raise typer.BadParameter(f"got {name!r}; expected one of {known}", param_hint="NAME")


app.command(epilog="Example: railwatch explain incident i-7f2a7a248c --plot incident.svg")(incident)


def _print_guide(name: str, guide: FaultClassGuide | SymptomGuide, *, as_json: bool) -> None:
    if as_json:
        print_json({"cause": name, **asdict(guide)})
        return
    if isinstance(guide, SymptomGuide):
        means = f"{guide.means}; a symptom, not a root cause"
        lines = [("", f"{one.value}: {FAULT_CLASS_GUIDES[one].means}") for one in guide.behind]
        lines[0] = ("behind it", lines[0][1])
    else:
        means, lines = guide.means, [("disproved by", guide.would_disprove)]
    console = Console(highlight=False)
    console.print(f"[bold]{name}[/]  {escape(means)}", soft_wrap=True)
    for label, text in (*lines, ("check", guide.check), ("more", "docs/runbook/causes.md")):
        console.print(f"  [dim]{label:<12}[/] {escape(text)}", soft_wrap=True)


def _print_code(found: CodeExplanation | None, title: str, *, as_json: bool) -> None:
    if found is None:
        typer.echo(f"railwatch: {title} is not in the catalogue of known codes", err=True)
        raise typer.Exit(1)
    if as_json:
        print_json(asdict(found))
        return
    console = Console(highlight=False)
    console.print(f"[bold]{title}[/]  {escape(found.name)}")
    rows = (
        ("name", found.mnemonic),
        ("severity", found.severity.value),
        ("category", found.category),
        ("means", found.meaning),
        ("look at", ", ".join(found.likely_causes)),
        ("do", found.action),
        ("note", found.note),
        ("source", found.source),
    )
    for label, text in rows:
        if text:
            console.print(f"  [dim]{label:<9}[/] {escape(text)}", soft_wrap=True)
