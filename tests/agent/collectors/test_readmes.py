"""The README of each collectors' room: its signals, units and configuration keys are those of the code."""

import re
from pathlib import Path

import pytest

from agent.collectors.meters.ups import UPS_SIGNALS
from agent.collectors.readings.tables import COUNTS
from config.models import Config
from telemetry.entities import EntityKind
from telemetry.signals import signal, signals_of
from tests.agent.collectors.whole_node import makers, tree

COLLECTORS = Path(__file__).resolve().parents[3] / "agent/collectors"
ROOMS = ("bmc", "events", "gpu", "host", "hwmon", "meters", "rails", "readings")
MAX_LINES = 60
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| (\S+) \| (`.*`) \|$", re.MULTILINE)
KEY = re.compile(r"`((?:sources|sampling)\.[a-z_.]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
SECTIONS = ("## Configuration", "## Sample", "## Cost and needs", "## Absence")
in_each_room = pytest.mark.parametrize("room", ROOMS)


def readme(room: str) -> str:
    return (COLLECTORS / room / "README.md").read_text(encoding="utf-8")


def listed(text: str) -> dict[str, set[str]]:
    """Return the signals of each table; fail where the catalogue has no such signal in that unit."""
    found: dict[str, set[str]] = {}
    for table, kind, unit, cells in ROW.findall(text):
        names = re.findall(r"`(\w+)`", cells)
        for name in names:
            assert (signal(EntityKind(kind), name).unit or "-") == unit, f"{table}: {name} is not in {unit}"
        found.setdefault(table, set()).update(names)
    return found


def test_each_room_with_collectors_has_a_readme() -> None:
    without = {"registry", "sysfs"}
    rooms = {folder.parent.name for folder in COLLECTORS.glob("*/__init__.py")}
    assert rooms - without == set(ROOMS)
    assert {path.parent.name for path in COLLECTORS.glob("*/README.md")} == set(ROOMS)


@in_each_room
def test_a_readme_is_short_apart_from_its_table_and_has_every_section(room: str) -> None:
    text = readme(room)
    assert len([line for line in text.splitlines() if not line.startswith("|")]) <= MAX_LINES
    assert [section for section in SECTIONS if section not in text] == []


@in_each_room
def test_the_signals_of_a_readme_are_in_the_catalogue_in_their_units(room: str) -> None:
    known = {one.name for kind in EntityKind for one in signals_of(kind)}
    text = readme(room)
    assert {name for names in listed(text).values() for name in names} <= known
    in_samples = re.findall(r"^\d+,\w+,[^,]+,(\w+),", text, re.MULTILINE)
    assert set(in_samples) <= known


@in_each_room
def test_the_configuration_keys_of_a_readme_exist(room: str) -> None:
    defaults = Config().model_dump()
    for key in KEY.findall(readme(room)):
        section = defaults
        for part in key.split("."):
            assert part in section, key
            section = section[part]


@in_each_room
def test_the_links_of_a_readme_lead_to_files(room: str) -> None:
    assert [link for link in LINK.findall(readme(room)) if not (COLLECTORS / room / link).is_file()] == []


def test_the_readmes_list_every_table_with_every_signal_of_its_collector(tmp_path: Path) -> None:
    tables: dict[str, set[str]] = {}
    for room in ROOMS:
        tables |= listed(readme(room))
    root = tree(tmp_path)
    for make in makers().values():
        collector = make(root)
        missing = set(collector.spec.signals) - tables.pop(collector.spec.name, set())
        collector.close()
        assert not missing, f"{collector.spec.name} has {missing}"
    assert tables.pop("ups") == set(UPS_SIGNALS)
    assert set(tables) == {COUNTS}
