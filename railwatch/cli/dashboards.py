"""``railwatch dashboards``: export dashboards for Grafana."""

from pathlib import Path
from typing import Annotated

import typer

from dashboards.grafana import build_dashboards, generated_files
from railwatch.cli.printing import print_json
from railwatch.cli.run_folder import JsonFlag
from telemetry.errors import EnvironmentLacksError

app = typer.Typer(
    no_args_is_help=True,
    help="Export dashboards for Grafana.",
    epilog="Example: railwatch dashboards export ./grafana",
)


@app.command(name="list", epilog="Example: railwatch dashboards list")
def list_command(as_json: JsonFlag = False) -> None:
    """List the dashboards with their number of panels."""
    for name, dashboard in build_dashboards().items():
        if as_json:
            print_json({"name": name, "title": dashboard["title"], "panels": len(dashboard["panels"])})
        else:
            typer.echo(f"{name}: {dashboard['title']}, {len(dashboard['panels'])} panels")


@app.command(epilog="Example: railwatch dashboards export ./grafana")
def export(folder: Annotated[Path, typer.Argument(help="Folder for the JSON files.")]) -> None:
    """Write the dashboards as JSON files, for the import page of Grafana or its provisioning folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in generated_files().items():
            (folder / path.name).write_text(text, encoding="utf-8")
            typer.echo(str(folder / path.name))
    except OSError as err:
        raise EnvironmentLacksError(f"{folder}: {err.strerror}; expected a writable folder") from err
