"""``railwatch simulate``: GPU nodes as physics, to look at, to run and to serve to other programs."""

import typer

from railwatch.cli.simulate.listing import list_command

app = typer.Typer(no_args_is_help=True, help="GPU nodes as physics: list, look at, run, serve and check them.")
app.command(name="list", epilog="Example: railwatch simulate list --json")(list_command)
