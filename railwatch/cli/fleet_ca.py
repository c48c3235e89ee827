"""``railwatch fleet ca``: certificates that name nodes and services, and what a service may ask."""

import re
from pathlib import Path
from typing import Annotated

import typer

from fleet.authority import AUTHORITY, DAYS, Authority
from fleet.control.tokens import SCOPES
from telemetry.clock import SystemClock, iso_utc

app = typer.Typer(no_args_is_help=True, help="Certificates of nodes and services, and what a service may ask.")
issue = typer.Typer(no_args_is_help=True, help="Make a certificate with its key.")
app.add_typer(issue, name="issue")

Folder = Annotated[Path, typer.Option("--dir", help="Folder of the authority.")]
Days = Annotated[int, typer.Option(min=1, max=3650, help="How long it is valid.")]
Renew = Annotated[bool, typer.Option("--renew", help="Replace the certificate and key that are there.")]
# What a DNS name allows and a certificate is checked by; one label or several.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@app.command(epilog="Example: railwatch fleet ca init --dir /root/railwatch-ca")
def init(folder: Folder, name: Annotated[str, typer.Option(help="What it is called.")] = "fleet") -> None:
    """Make a new authority; its key stays in this folder, and goes to no node."""
    try:
        Authority.begin(folder, SystemClock(), name=name)
    except ValueError as err:
        raise typer.BadParameter(str(err)) from err
    typer.echo(f"{folder / AUTHORITY}.pem  goes to every node and service\n{folder / AUTHORITY}.key  stays here")


@issue.command(epilog="Example: railwatch fleet ca issue node node7 --dir /root/railwatch-ca")
def node(
    name: Annotated[str, typer.Argument(metavar="NODE", help="Its name in every record (node.name).")],
    folder: Folder,
    days: Days = DAYS,
    address: Annotated[list[str] | None, typer.Option(help="A further name or address; may be repeated.")] = None,
    renew: Renew = False,
) -> None:
    """Make the certificate by which a node shows that it is this node."""
    named = _named(name)
    authority = _authority(folder, f"node-{named}", renew=renew)
    path = authority.issue_node(named, SystemClock(), addresses=tuple(address or ()), days=days)
    typer.echo(f"{path}\n{path.with_suffix('.key')}")


@issue.command(epilog="Example: railwatch fleet ca issue fleet fleet-a --dir /root/railwatch-ca")
def fleet(
    name: Annotated[str, typer.Argument(metavar="SERVICE", help="Its name (fleet.name).")],
    folder: Folder,
    days: Days = DAYS,
    renew: Renew = False,
) -> None:
    """Make the certificate by which a fleet service asks; its key signs each request too."""
    named = _named(name)
    path = _authority(folder, f"fleet-{named}", renew=renew).issue_fleet(named, SystemClock(), days=days)
    typer.echo(f"{path}\n{path.with_suffix('.key')}")


@app.command(
    epilog="Example: railwatch fleet ca token fleet-a --scope read --scope act:clock_cap --dir /root/railwatch-ca"
)
def token(
    name: Annotated[str, typer.Argument(metavar="SERVICE", help="Its name (fleet.name).")],
    scope: Annotated[list[str], typer.Option(help=f"One of {', '.join(SCOPES)}; may be repeated.")],
    folder: Folder,
    days: Days = DAYS,
) -> None:
    """Make the token that says what a service may ask; its id is what `control.revoked` of agents takes."""
    strangers = sorted(set(scope) - set(SCOPES))
    if strangers:
        raise typer.BadParameter(f"got {', '.join(strangers)}; expected some of {', '.join(SCOPES)}")
    named = _named(name)
    authority = Authority.of(folder)
    if named not in authority.fleets:
        known = (
            f"{folder} has {', '.join(authority.fleets) or 'none'}; railwatch fleet ca issue fleet {named} makes one"
        )
        raise typer.BadParameter(f"got {named!r}; expected a service with a certificate: {known}")
    made = authority.issue_token(named, tuple(dict.fromkeys(scope)), SystemClock(), days=days)
    typer.echo(f"{folder}/fleet-{name}.token  id {made.id}, until {iso_utc(made.expires_ns)[:10]}")


def _authority(folder: Path, stem: str, *, renew: bool) -> Authority:
    """Open an authority that is to make a key; one that is in use somewhere is not replaced without a word."""
    authority = Authority.of(folder)
    if authority.has(stem) and not renew:
        raise typer.BadParameter(f"{folder / stem}.key is there already; --renew replaces it and its certificate")
    return authority


def _named(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise typer.BadParameter(f"got {name!r}; expected letters, digits, points, hyphens and _, 63 at most")
    return name
