"""``railwatch simulate``: GPU nodes as physics, to look at, to run and to serve to other programs."""

import typer

from railwatch.cli.simulate.check import check
from railwatch.cli.simulate.listing import list_command
from railwatch.cli.simulate.run import run
from railwatch.cli.simulate.serve import serve
from railwatch.cli.simulate.show import show

app = typer.Typer(
    no_args_is_help=True,
    help="List, show, run, serve and check simulated nodes, racks and scenarios.",
    epilog="Example: railwatch simulate run psu-sag --duration 60s --out sag.parquet",
)
app.command(name="list", epilog="Example: railwatch simulate list --json")(list_command)
app.command(epilog="Example: railwatch simulate show v100x4-xt60 --sources")(show)
app.command(
    epilog="Example: railwatch simulate run psu-sag --seed 7 --out sag.parquet --truth sag.json\n\n"
    "railwatch simulate run pdu-sag --out rack.parquet --truth rack.json"
)(run)
app.command(epilog="Example: railwatch simulate check --only double-ring-full-load --json")(check)
app.command(epilog="Example: railwatch simulate serve v100x4 -- nvitop -1")(serve)
