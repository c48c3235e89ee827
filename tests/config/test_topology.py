"""Tests of `topology:` in the configuration: what it accepts, and one line for each contradiction."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.loading import load_config
from config.models import Config
from config.topology import TopologySection
from physics.breakers import BreakerCurve
from physics.wiring import Origin, Redundancy, names_gpu
from telemetry.entities import Entity, EntityKind
from telemetry.errors import ConfigError

_WHOLE = """
topology:
  gpu_count: 5
  feeds:
    - {name: A, nominal_v: 120, breaker_a: 20, curve: C}
  shelves:
    - {name: shelf0, feed: A, rated_w: 2200}
  supplies:
    - {name: psu0, rated_w: 1100, shelf: shelf0, inlet: C13, plugs: [{plug: xt60, count: 2}, lug-M6]}
    - {name: psu1, rated_w: 1100, shelf: shelf0, sensors: [ina226-1, bmc-psu1]}
    - {name: ibc0, from_bus: main, rated_w: 600, nominal_v: 12}
  buses:
    - name: main
      nominal_v: 54
      supplies: [psu0, psu1]
      redundancy: N+1
      branches:
        - {gpus: [0, gpu1, "0000:43:00.0", GPU-12345678], plugs_each: [8-pin PCIe]}
        - {fans: true}
    - name: aux
      supplies: [ibc0]
      branches:
        - {gpus: [4], board: mainboard, plugs: [{plug: other, rating_a: 40}]}
"""


def _problems(text: str, tmp_path: Path) -> list[str]:
    path = tmp_path / "railwatch.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path, {})
    return [str(problem).replace(str(path), "FILE") for problem in caught.value.problems]


def _document(*, supplies: str = "", buses: str = "", top: str = "") -> str:
    head = "topology:\n" + (f"  {top}\n" if top else "")
    return head + f"  supplies:\n{supplies}  buses:\n{buses}"


_PSU0 = "    - {name: psu0, rated_w: 1100}\n"
_PSU1 = "    - {name: psu1, rated_w: 1100}\n"
_SHELF0 = "shelves: [{name: shelf0, feed: A}]"
_FEEDS = "  feeds: [{name: A}, {name: B}]\n"
_FEED_A = "  feeds: [{name: A}]\n"
_MAIN = "    - {name: main, nominal_v: 12, supplies: [psu0], branches: [{gpus: [0, 1]}]}\n"


def test_a_whole_description_becomes_a_wiring(tmp_path: Path) -> None:
    path = tmp_path / "railwatch.yaml"
    path.write_text(_WHOLE)
    wiring = load_config(path, {}).topology.wiring()
    assert wiring is not None
    assert wiring.origin is Origin.CONFIGURED
    psu0, psu1, ibc0 = wiring.supplies
    assert (psu0.feed, psu0.nominal_v, psu0.sensors) == ("A", 54.0, ("psu0",))
    assert [(plugs.label, plugs.rating_a, plugs.peak_a) for plugs in psu0.plugs] == [
        ("2x XT60", 30.0, 60.0),
        ("lug-M6", 125.0, None),
    ]
    assert psu0.plugs[0].total_rating_a == 60.0
    assert psu1.sensors == ("ina226-1", "bmc-psu1")
    assert (ibc0.nominal_v, ibc0.from_bus) == (12.0, "main")
    main, aux = wiring.buses
    assert (main.redundancy, aux.nominal_v) == (Redundancy.N_PLUS_1, 12.0)
    assert wiring.feeds[0].curve is BreakerCurve.C
    assert [bus.name for bus in wiring.at_and_below(main)] == ["main", "aux"]
    assert wiring.at_and_below(aux) == (aux,)


def test_a_description_survives_the_way_to_another_process(tmp_path: Path) -> None:
    path = tmp_path / "railwatch.yaml"
    path.write_text(_WHOLE.replace("gpus: [4]", "gpus: all"))
    config = load_config(path, {})
    assert Config.model_validate_json(config.model_dump_json()) == config


def test_without_a_description_there_is_no_wiring() -> None:
    assert TopologySection().wiring() is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            _document(supplies="    - {name: psu0, rated_w: 0}\n", buses=_MAIN),
            "FILE:3: topology.supplies[0].rated_w: got 0; expected above 0",
            id="a rating of 0",
        ),
        pytest.param(
            _document(supplies="    - {name: psu0, nominal_v: 48}\n", buses=_MAIN),
            "FILE:3: topology.supplies[0].nominal_v: got 48 V; expected 12 V, the nominal voltage of its bus main",
            id="a rail with two nominals",
        ),
        pytest.param(
            _document(supplies="    - {name: psu0, shelf: psu0}\n", buses=_MAIN, top="shelves: [{name: psu0, feed: A}]")
            + _FEEDS,
            "FILE:2: topology.shelves[0].name: duplicate name 'psu0'; "
            "expected a name of its own: a supply or a sensor has it",
            id="a shelf with the name of a supply",
        ),
        pytest.param(
            _document(supplies="    - {name: psu0}\n", buses=_MAIN, top=_SHELF0) + _FEEDS,
            "FILE:2: topology.shelves[0].name: shelf0 holds no supply; expected a supply with shelf: shelf0",
            id="a shelf that holds nothing",
        ),
        pytest.param(
            _document(
                supplies="    - {name: psu0, shelf: shelf0, feed: B}\n",
                buses=_MAIN,
                top="shelves: [{name: shelf0, feed: A}]",
            )
            + _FEEDS,
            "FILE:4: topology.supplies[0].feed: got B; expected A, the feed of its shelf shelf0, or none",
            id="a module on another feed than its shelf",
        ),
        pytest.param(
            _document(supplies=_PSU0 + _PSU1, buses=_MAIN),
            "FILE:4: topology.supplies[1].name: psu1 feeds nothing; expected its name in the supplies of one bus",
            id="a supply that feeds nothing",
        ),
        pytest.param(
            _document(supplies=_PSU0 + _PSU1, buses=_MAIN + "    - {name: spare, supplies: [psu1]}\n"),
            "FILE:7: topology.buses[1].branches: psu1 feeds nothing; expected a branch to GPUs, a board or fans",
            id="a bus that feeds nothing",
        ),
        pytest.param(
            _document(
                supplies=_PSU0 + _PSU1,
                buses=_MAIN + "    - name: b\n      supplies: [psu1, psu0]\n      branches: [{gpus: [2]}]\n",
            ),
            "FILE:8: topology.buses[1].supplies: psu0 is on main and on b; expected each supply once, on one bus",
            id="a supply on two buses",
        ),
        pytest.param(
            _document(
                supplies=_PSU0 + _PSU1,
                buses=_MAIN + "    - name: b\n      supplies: [psu1]\n      branches:\n        - {gpus: [gpu1, 2]}\n",
            ),
            "FILE:10: topology.buses[1].branches[0].gpus: GPU 1 is on main and on b, which do not join; "
            "expected each GPU on one bus, or joins between the two",
            id="a GPU fed by two buses that do not join",
        ),
        pytest.param(
            _document(supplies=_PSU0, buses=_MAIN.replace("[0, 1]", "[0, 3]")),
            "FILE:4: topology.buses: no bus feeds GPUs 1, 2; expected each GPU in the gpus of a branch",
            id="GPUs below the highest index that no bus feeds",
        ),
        pytest.param(
            _document(supplies=_PSU0, buses=_MAIN, top="gpu_count: 3"),
            "FILE:5: topology.buses: no bus feeds GPU 2; expected each GPU in the gpus of a branch",
            id="a GPU of the count that no bus feeds",
        ),
        pytest.param(
            _document(supplies=_PSU0, buses=_MAIN, top="gpu_count: 1"),
            "FILE:2: topology.gpu_count: got 1, and buses feed GPU 1; expected 2 or more, or indices from 0 to 0",
            id="an index beyond the count",
        ),
        pytest.param(
            _document(
                supplies="    - {name: c1, from_bus: y}\n    - {name: c2, from_bus: x}\n",
                buses="    - {name: x, supplies: [c1], branches: [{board: b}]}\n    - {name: y, supplies: [c2]}\n",
            ),
            "FILE:3: topology.supplies[0].from_bus: c1 feeds x, which feeds y, which feeds c1; "
            "expected a bus that this converter does not feed",
            id="a circle",
        ),
        pytest.param(
            _document(supplies=_PSU0.replace("}", ", plugs: [XT30]}"), buses=_MAIN),
            "FILE:3: topology.supplies[0].plugs[0].plug: got 'XT30'; expected one of XT60, banana, EPS12V, 6-pin",
            id="a plug that is not known",
        ),
        pytest.param(
            _document(supplies=_PSU0.replace("}", ", plugs: [other]}"), buses=_MAIN),
            "FILE:3: topology.supplies[0].plugs[0].rating_a: missing; expected the continuous current of one plug",
            id="another plug without a rating",
        ),
        pytest.param(
            _document(supplies=_PSU0.replace("}", ", plugs: [{plug: XT60, rating_a: 70, peak_a: 60}]}"), buses=_MAIN),
            "FILE:3: topology.supplies[0].plugs[0].peak_a: got 60 A; expected rating_a or more: 70 A",
            id="a peak below the rating",
        ),
        pytest.param(
            _document(supplies=_PSU0.replace("}", ", feed: B}"), buses=_MAIN),
            "FILE:3: topology.supplies[0].feed: unknown name 'B'; expected a feed: topology has none",
            id="a feed that is not described",
        ),
        pytest.param(
            _document(supplies=_PSU0 + _PSU0, buses=_MAIN),
            "FILE:4: topology.supplies[1].name: duplicate name 'psu0'; expected a name of its own: supplies[0] has it",
            id="a name twice",
        ),
        pytest.param(
            _document(supplies=_PSU0, buses=_MAIN.replace("branches", "redundancy: N+1, branches")),
            "FILE:5: topology.buses[0].redundancy: N+1 with 1 supply; expected 2 supplies or more",
            id="more spare supplies than there are",
        ),
        pytest.param(
            _document(
                supplies=_PSU0.replace("}", ", feed: A}") + _PSU1.replace("}", ", feed: A}"),
                buses=_MAIN.replace("[psu0]", "[psu0, psu1]").replace("branches", "redundancy: N+N, branches"),
            )
            + _FEED_A,
            "FILE:6: topology.buses[0].redundancy: N+N with psu0, psu1 on feed A; expected at most 1 of 2 on one feed",
            id="N+N on one feed",
        ),
        pytest.param(
            _document(supplies=_PSU0, buses=_MAIN) + _FEED_A,
            "FILE:6: topology.feeds[0].name: A feeds nothing; expected a supply or shelf with feed: A",
            id="a feed that feeds nothing",
        ),
        pytest.param(
            _document(supplies=_PSU0, buses=_MAIN.replace("[0, 1]", "[0, 0000:43:00.0]")),
            "FILE:5: topology.buses[0].branches[0].gpus[1]: got 2580.0; "
            "expected an index, a name such as gpu2, a UUID, or a PCI address in quotes",
            id="a PCI address that YAML reads as a number",
        ),
        pytest.param(
            _document(supplies=_PSU0, buses=_MAIN.replace("12,", "13,")),
            "FILE:5: topology.buses[0].nominal_v: got 13; expected the nominal voltage of a rail: one of 3.3, 5, 12, ",
            id="a nominal voltage of no class",
        ),
        pytest.param(
            _document(
                supplies=_PSU0.replace("}", ", sensors: [x]}") + _PSU1.replace("}", ", sensors: [x]}"), buses=_MAIN
            ),
            "FILE:4: topology.supplies[1].sensors: sensor 'x' of two supplies; expected each sensor on one supply: "
            "psu0 has it",
            id="a sensor of two supplies",
        ),
        pytest.param(
            _document(supplies=_PSU0, buses=_MAIN.replace("[0, 1]", "[0, 1, gpu1]")),
            "FILE:5: topology.buses[0].branches[0].gpus: GPU 1 twice; expected each GPU once on a bus",
            id="a GPU twice in a branch",
        ),
        pytest.param(
            _document(supplies=_PSU0, buses=_MAIN.replace("[0, 1]}", "[0, 1]}, {gpus: all}")),
            "FILE:5: topology.buses[0].branches[1].gpus: every GPU twice, branches[0] has it; expected each GPU once",
            id="every GPU next to some",
        ),
        pytest.param(
            _document(supplies=_PSU0.replace("1100", "true"), buses=_MAIN),
            "FILE:3: topology.supplies[0].rated_w: got true (also written on or yes); expected a number",
            id="a rating that is true",
        ),
        pytest.param(
            _document(supplies=_PSU0.replace("1100", "1.0e+12"), buses=_MAIN),
            "FILE:3: topology.supplies[0].rated_w: got 1000000000000.0; expected at most 1000000",
            id="a rating of a power station",
        ),
        pytest.param(
            _document(supplies=_PSU0, buses=_MAIN.replace("nominal_v: 12", "nominal_v: 230")),
            "FILE:5: topology.buses[0].nominal_v: got 230; expected the nominal voltage of a rail: one of 3.3, 5, 12, ",
            id="a bus of mains voltage",
        ),
        pytest.param(
            _document(supplies=_PSU0, buses=_MAIN.replace("branches", "joins: [aux], branches")),
            "FILE:5: topology.buses[0].joins: unknown name 'aux'; expected another bus: topology has none",
            id="a bus tied to one that is not described",
        ),
        pytest.param(
            _document(supplies=_PSU0 + "".join(f"    - {{name: p{n}}}\n" for n in range(300)), buses=_MAIN),
            "FILE:2: topology.supplies: got 301 items; expected at most 256 items",
            id="more supplies than any node has",
        ),
        pytest.param(
            _document(
                supplies=_PSU0 + "    - {name: psu1, nominal_v: 54}\n",
                buses=_MAIN + "    - {name: b, supplies: [psu1], joins: [main]}\n",
            ),
            "FILE:7: topology.buses[1].joins: joins main of 12 V to b of 54 V; expected buses of one nominal voltage",
            id="buses of two voltages tied together",
        ),
        pytest.param(
            _document(supplies=_PSU0, buses=_MAIN.replace("branches", "sensors: [psu0], branches")),
            "FILE:5: topology.buses[0].sensors[0]: got 'psu0'; expected a rail of the board: it shows supply psu0",
            id="a supply as the rail of its bus",
        ),
        pytest.param(
            _document(
                supplies=_PSU0 + _PSU1,
                buses=_MAIN.replace("branches", "sensors: [P12V_A], branches")
                + "    - {name: b, supplies: [psu1], sensors: [P12V_A], branches: [{fans: true}]}\n",
            ),
            "FILE:7: topology.buses[1].sensors[0]: got 'P12V_A'; expected each rail on one bus: main has it",
            id="a rail of two buses",
        ),
    ],
)
def test_a_contradiction_is_one_line_with_place_and_what_was_expected(text: str, expected: str, tmp_path: Path) -> None:
    (problem,) = _problems(text, tmp_path)
    assert problem.startswith(expected)


def test_every_contradiction_is_reported_at_once_in_the_order_of_lines(tmp_path: Path) -> None:
    text = _document(
        supplies=_PSU0.replace("}", ", nominal_v: 54}") + _PSU1,
        buses=_MAIN.replace("[0, 1]", "[0, 2]"),
        top="gpu_count: 4",
    )
    lines = [problem.split(":")[1] for problem in _problems(text, tmp_path)]
    assert lines == ["4", "5", "6"]


def test_a_gpu_may_hang_on_two_buses_that_join(tmp_path: Path) -> None:
    path = tmp_path / "railwatch.yaml"
    path.write_text(
        _document(
            supplies=_PSU0 + _PSU1,
            buses=_MAIN + "    - {name: b, supplies: [psu1], joins: [main], branches: [{gpus: [1]}]}\n",
        )
    )
    wiring = load_config(path, {}).topology.wiring()
    assert wiring is not None
    gpus = [Entity(kind=EntityKind.GPU, key=f"u{n}", name=f"gpu{n}") for n in range(2)]
    assert [len(wiring.gpus_of(bus, gpus)) for bus in wiring.buses] == [2, 2]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=16))
def test_each_gpu_is_on_the_bus_that_names_it_and_no_other(bus_of_gpu: list[int]) -> None:
    used = sorted(set(bus_of_gpu))
    topology = TopologySection.model_validate(
        {
            "supplies": [{"name": f"psu{bus}"} for bus in used],
            "buses": [
                {
                    "name": f"bus{bus}",
                    "supplies": [f"psu{bus}"],
                    "branches": [{"gpus": [gpu for gpu, own in enumerate(bus_of_gpu) if own == bus]}],
                }
                for bus in used
            ],
        }
    )
    wiring = topology.wiring()
    assert wiring is not None
    gpus = [Entity(kind=EntityKind.GPU, key=f"u{n}", name=f"gpu{n}") for n in range(len(bus_of_gpu))]
    for bus in wiring.buses:
        own = [n for n, one in enumerate(bus_of_gpu) if f"bus{one}" == bus.name]
        assert [gpu.name for gpu in wiring.gpus_of(bus, gpus)] == [f"gpu{n}" for n in own]
    assert all(names_gpu(str(n), gpu) for n, gpu in enumerate(gpus))
