"""``railwatch fleet ca``: certificates of nodes and services, and tokens of services."""

import re
from pathlib import Path
from typing import Annotated

import typer

from fleet.certificates.authority import AUTHORITY, DAYS, Authority
from fleet.certificates.tokens import SCOPES
from telemetry.clock import SystemClock, iso_utc

app = typer.Typer(
    no_args_is_help=True,
    help="Certificates of nodes and services, and tokens of services.",
    epilog="Example: railwatch fleet ca init --dir /root/railwatch-ca",
)
issue = typer.Typer(
    no_args_is_help=True,
    help="Issue a certificate with its key.",
    epilog="Example: railwatch fleet ca issue node node7 --dir /root/railwatch-ca",
)
app.add_typer(issue, name="issue")

Folder = Annotated[Path, typer.Option("--dir", help="Folder of the authority.")]
Days = Annotated[int, typer.Option(min=1, max=3650, help="Validity in days.")]
Renew = Annotated[bool, typer.Option("--renew", help="Replace an existing certificate and key.")]
# One or several labels of a DNS name.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@app.command(epilog="Example: railwatch fleet ca init --dir /root/railwatch-ca")
def init(folder: Folder, name: Annotated[str, typer.Option(help="Name of the authority.")] = "fleet") -> None:
    """Create an authority; its key stays in this folder and goes to no node."""
    try:
        Authority.begin(folder, SystemClock(), name=name)
    except ValueError as err:
        raise typer.BadParameter(str(err)) from err
    typer.echo(f"{folder / AUTHORITY}.pem  copy to every node and service\n{folder / AUTHORITY}.key  keep here")


@issue.command(epilog="Example: railwatch fleet ca issue node node7 --dir /root/railwatch-ca")
def node(
    name: Annotated[str, typer.Argument(metavar="NODE", help="Name of the node (node.name).")],
    folder: Folder,
    days: Days = DAYS,
    address: Annotated[list[str] | None, typer.Option(help="Additional name or address; may be repeated.")] = None,
    renew: Renew = False,
) -> None:
    """Issue the certificate of a node."""
    named = _named(name)
    authority = _authority(folder, f"node-{named}", renew=renew)
    path = authority.issue_node(named, SystemClock(), addresses=tuple(address or ()), days=days)
    typer.echo(f"{path}\n{path.with_suffix('.key')}")


@issue.command(epilog="Example: railwatch fleet ca issue fleet fleet-a --dir /root/railwatch-ca")
def fleet(
    name: Annotated[str, typer.Argument(metavar="SERVICE", help="Name of the service (fleet.name).")],
    folder: Folder,
    days: Days = DAYS,
    renew: Renew = False,
) -> None:
    """Issue the certificate of a fleet service; its key also signs each request."""
    named = _named(name)
    path = _authority(folder, f"fleet-{named}", renew=renew).issue_fleet(named, SystemClock(), days=days)
    typer.echo(f"{path}\n{path.with_suffix('.key')}")


@app.command(
    epilog="Example: railwatch fleet ca token fleet-a --scope read --scope act:clock_cap --dir /root/railwatch-ca"
)
def token(
    name: Annotated[str, typer.Argument(metavar="SERVICE", help="Name of the service (fleet.name).")],
    scope: Annotated[list[str], typer.Option(help=f"One of {', '.join(SCOPES)}; may be repeated.")],
    folder: Folder,
    days: Days = DAYS,
) -> None:
    """Issue the token of a service with its scopes; agents revoke it by its id in `control.revoked`."""
    unknown = sorted(set(scope) - set(SCOPES))
    if unknown:
        raise typer.BadParameter(
            f"got {', '.join(unknown)}; expected some of {', '.join(SCOPES)}", param_hint="--scope"
        )
    named = _named(name)
    authority = Authority.of(folder)
    if named not in authority.fleets:
        services = ", ".join(authority.fleets) or "none"
        known = f"{folder} has {services}; add it with railwatch fleet ca issue fleet {named}"
        raise typer.BadParameter(f"got {named!r}; expected a service with a certificate: {known}", param_hint="SERVICE")
    made = authority.issue_token(named, tuple(dict.fromkeys(scope)), SystemClock(), days=days)
    typer.echo(f"{folder}/fleet-{name}.token  id {made.id}, until {iso_utc(made.expires_ns)[:10]}")


def _authority(folder: Path, stem: str, *, renew: bool) -> Authority:
    """Open an authority to issue a key; an existing key is replaced only with `renew`."""
    authority = Authority.of(folder)
    if authority.has(stem) and not renew:
        raise typer.BadParameter(f"{folder / stem}.key exists; --renew replaces it and its certificate")
    return authority


def _named(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise typer.BadParameter(f"got {name!r}; expected letters, digits, points, hyphens and _, 63 at most")
    return name
