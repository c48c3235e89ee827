"""``railwatch config``: check a configuration file, show the one in force, or print a sample."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer
import yaml

from agent.collectors.readings.listener import ListenerSettings
from agent.responding.hook import check_program
from config.loading import load_config
from config.models import Config
from config.policies import check_names, policies_of
from config.reference import sample_yaml
from railwatch.cli.printing import pluralize, print_json, print_problems
from railwatch.cli.run_folder import ConfigFile, JsonFlag
from rules.fleet.loading import load_fleet_policies
from telemetry.documents import Lines, read_document
from telemetry.errors import ConfigError, NotPermittedError, NotSupportedError, Problem

app = typer.Typer(
    no_args_is_help=True,
    help="Check a configuration file, show the one in force, or print a sample.",
    epilog="Example: railwatch config check /etc/railwatch.yaml",
)

# The keys that name folders of policies.
_FOLDERS: Mapping[tuple[str, ...], Callable[[Config], tuple[Path, ...]]] = {
    ("rules", "dirs"): lambda config: config.rules.dirs,
    ("rules", "node_dirs"): lambda config: config.rules.node_dirs,
    ("fleet", "act", "dirs"): lambda config: config.fleet.act.dirs,
}


@app.command(epilog="Example: railwatch config check /etc/railwatch.yaml")
def check(file: Annotated[Path, typer.Argument(help="Configuration file (YAML).")], as_json: JsonFlag = False) -> None:
    """Check a configuration file and report every problem with line, key and what was expected.

    The policies of the node and of the fleet that it names are checked too. A hook program that cannot run here and a
    missing folder of policies are warnings, since the file may be meant for another machine.
    """
    try:
        config = load_config(file, os.environ)
        data, lines = read_document(file)
        _check_group(config, file, lines)
        missing = tuple(_folders_not_here(config, file, lines))
        _check_policies(_with_folders_here(config))
    except ConfigError as err:
        print_problems(err.problems, as_json=as_json)
        raise typer.Exit(2) from err
    warnings = (*_hooks_that_fail(config, file, lines), *missing)
    print_problems(warnings, as_json=as_json)
    if as_json:
        print_json({"file": str(file), "ok": True, "empty": not data, "warnings": len(warnings)})
    else:
        fine = "no problems (empty file, all defaults apply)" if not data else "no problems"
        typer.echo(f"{file}: " + (pluralize(len(warnings), "warning") if warnings else fine))


def _check_policies(config: Config) -> None:
    """Raise ConfigError with every problem of the policies of node and fleet."""
    problems: list[Problem] = []
    act = config.fleet.act
    readers: tuple[Callable[[], object], ...] = (
        lambda: check_names(config, policies_of(config)),
        lambda: load_fleet_policies(act.dirs, builtin=act.builtin),
    )
    for read in readers:
        try:
            read()
        except ConfigError as err:
            problems.extend(err.problems)
    if problems:
        raise ConfigError(problems)


def _hooks_that_fail(config: Config, file: Path, lines: Lines) -> Iterator[Problem]:
    """Yield a warning for each hook program that cannot run here."""
    for name, hook in config.actuators.hooks.items():
        key = ("actuators", "hooks", name, "command")
        try:
            check_program(hook.command[0])
        except (NotSupportedError, NotPermittedError) as err:
            yield Problem(
                where=str(file),
                line=lines.get(key),
                key=".".join(key),
                found=f"warning: {err}",
                expected="a program that this user may run",
            )


def _folders_not_here(config: Config, file: Path, lines: Lines) -> Iterator[Problem]:
    """Yield a warning for each missing folder of policies."""
    for key, folders in _FOLDERS.items():
        for folder in folders(config):
            if _is_missing(folder):
                found, expected = f"warning: {folder}: No such file or directory", "a readable folder of policies"
                yield Problem(where=str(file), line=lines.get(key), key=".".join(key), found=found, expected=expected)


def _with_folders_here(config: Config) -> Config:
    rules, act = config.rules, config.fleet.act
    of_node = {name: _here(getattr(rules, name)) for name in ("dirs", "node_dirs")}
    of_fleet = act.model_copy(update={"dirs": _here(act.dirs)})
    return config.model_copy(
        update={
            "rules": rules.model_copy(update=of_node),
            "fleet": config.fleet.model_copy(update={"act": of_fleet}),
        }
    )


def _here(folders: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(folder for folder in folders if not _is_missing(folder))


def _is_missing(folder: Path) -> bool:
    """Return True if a folder does not exist; an unreadable one is refused by the reader of the policies."""
    try:
        folder.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _check_group(config: Config, file: Path, lines: Lines) -> None:
    """Raise ConfigError for a missing group: a run would start, and no program could send readings."""
    group = config.sources.readings.group
    if ListenerSettings(path=file, group=group).lacks_group:
        key = ("sources", "readings", "group")
        found, expected = f"got {group!r}", "a group of this machine"
        raise ConfigError.at(file, found, expected, key=".".join(key), line=lines.get(key))


@app.command(epilog="Example: railwatch config sample > railwatch.yaml")
def sample() -> None:
    """Print a sample file with every key at its default, commented out."""
    typer.echo(sample_yaml(), nl=False)


@app.command(epilog="Example: RAILWATCH_SAMPLING__FAST_HZ=50 railwatch config show")
def show(config_file: ConfigFile = None, as_json: JsonFlag = False) -> None:
    """Print the configuration in force as YAML: defaults, file and environment, without secrets."""
    fields = load_config(config_file, os.environ).model_dump(mode="json")
    for section, key in (("store", "password"), ("store", "token"), ("page", "token"), ("page", "act_token")):
        if fields[section][key] is not None:
            fields[section][key] = "***"
    if as_json:
        print_json(fields)
    else:
        typer.echo(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True), nl=False)
