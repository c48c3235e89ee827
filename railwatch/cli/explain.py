"""``railwatch explain``: a code, a cause or an incident in words a person can act on."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from analytics.catalogue import Explanation, explain_sxid, explain_xid
from analytics.classification.answers import ANSWERS
from analytics.classification.symptoms import SYMPTOMS
from railwatch.cli.explain_incident import incident
from railwatch.cli.printing import print_json
from telemetry.records import Cause, FaultClass

app = typer.Typer(no_args_is_help=True, help="Explain a code, a cause or an incident in words a person can act on.")


def _code(text: str) -> int:
    if not text.isdecimal():
        raise typer.BadParameter(f"{text!r}; expected the number in the log, such as 79")
    return int(text)


Code = Annotated[int, typer.Argument(parser=_code, metavar="CODE", help="The number in the log.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="One JSON object.")]


@app.command(epilog="Example: railwatch explain xid 79")
def xid(code: Code, as_json: JsonFlag = False) -> None:
    """Explain an Xid of NVIDIA's GPU driver."""
    _tell(explain_xid(code), f"Xid {code}", as_json=as_json)


@app.command(epilog="Example: railwatch explain sxid 20034")
def sxid(code: Code, as_json: JsonFlag = False) -> None:
    """Explain an SXid of NVIDIA's NVSwitch driver."""
    _tell(explain_sxid(code), f"SXid {code}", as_json=as_json)


@app.command(epilog="Example: railwatch explain cause joint_ageing")
def cause(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A class of root cause, or what an incident is headed.")],
    as_json: JsonFlag = False,
) -> None:
    """Explain a cause: what it means, what would disprove it or lies behind it, what to check."""
    if name in ANSWERS:
        _tell_cause(FaultClass(name), as_json=as_json)
    elif name in SYMPTOMS:
        _tell_symptom(Cause(name), as_json=as_json)
    else:
        known = ", ".join(dict.fromkeys(one.value for one in (*FaultClass, *Cause)))
        raise typer.BadParameter(f"{name!r} is none of {known}", param_hint="NAME")


app.command(epilog="Example: railwatch explain incident i-7f2a7a248c --plot incident.svg")(incident)


def _tell_cause(one: FaultClass, *, as_json: bool) -> None:
    answer = ANSWERS[one]
    if as_json:
        print_json({"cause": one.value, **asdict(answer)})
        return
    console = Console(highlight=False)
    console.print(f"[bold]{one.value}[/]  {escape(answer.means)}", soft_wrap=True)
    console.print(f"  [dim]disproved by[/] {escape(answer.would_disprove)}", soft_wrap=True)
    _tell_check(console, answer.check)


def _tell_symptom(one: Cause, *, as_json: bool) -> None:
    symptom = SYMPTOMS[one]
    if as_json:
        print_json({"cause": one.value, **asdict(symptom)})
        return
    console = Console(highlight=False)
    console.print(f"[bold]{one.value}[/]  {escape(symptom.means)}; a symptom, no cause", soft_wrap=True)
    for place, cause in enumerate(symptom.behind):
        label = "behind it" if place == 0 else ""
        console.print(f"  [dim]{label:<12}[/] {cause.value}: {escape(ANSWERS[cause].means)}", soft_wrap=True)
    _tell_check(console, symptom.check)


def _tell_check(console: Console, check: str) -> None:
    console.print(f"  [dim]check[/]        {escape(check)}", soft_wrap=True)
    console.print("  [dim]more[/]         docs/runbook/causes.md", soft_wrap=True)


def _tell(found: Explanation | None, title: str, *, as_json: bool) -> None:
    if found is None:
        typer.echo(f"{title} is not in the catalogue", err=True)
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
