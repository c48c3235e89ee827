"""``railwatch explain``: a code, a cause or an incident in words a person can act on."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from analytics.catalogue import Explanation, explain_sxid, explain_xid
from analytics.classification.answers import ANSWERS
from railwatch.cli.incident_story import incident
from railwatch.cli.output import print_json
from telemetry.records import RootCause

app = typer.Typer(no_args_is_help=True, help="Explain a code, a cause or an incident in words a person can act on.")

Code = Annotated[int, typer.Argument(min=0, help="The number in the log.")]
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
    name: Annotated[RootCause, typer.Argument(metavar="NAME", help="A class of root cause.")], as_json: JsonFlag = False
) -> None:
    """Explain a class of root cause: what it means, what would disprove it, what to check."""
    answer = ANSWERS[name]
    if as_json:
        print_json({"cause": name.value, **asdict(answer)})
        return
    console = Console(highlight=False)
    console.print(f"[bold]{name.value}[/]  {escape(answer.means)}", soft_wrap=True)
    console.print(f"  [dim]disproved by[/] {escape(answer.would_disprove)}", soft_wrap=True)
    console.print(f"  [dim]check[/]        {escape(answer.check)}", soft_wrap=True)
    console.print("  [dim]more[/]         docs/runbook/causes.md", soft_wrap=True)


app.command(epilog="Example: railwatch explain incident i-7f2a7a248c --plot incident.svg")(incident)


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
