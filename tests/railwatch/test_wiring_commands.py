"""``railwatch wiring``: the drawing on 4, 8 and 16 GPUs, what is unknown, and the check of a description."""

from pathlib import Path

import numpy as np
import pytest

from railwatch.operator.standing import OVER
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray
from telemetry.recording import RecordingMeta, write_recording
from tests.analytics.scenes import frame_of, supply
from tests.railwatch.command_line import Run, objects

RATE_HZ, SECONDS = 10.0, 20
TERMINAL_COLUMNS = 80


def _recorded(
    path: Path,
    *,
    n_gpus: int,
    bus_of_gpu: list[int],
    bus_of_supply: list[int],
    nominal_v: float,
    is_first_lost: bool = False,
) -> Path:
    """Write a recording of GPUs of 300 W and supplies that share the load of their bus; the first may fall out."""
    node = Entity(kind=EntityKind.NODE, key="box", name="box")
    gpus = tuple(
        Entity(kind=EntityKind.GPU, key=f"GPU-{n:08x}", name=f"gpu{n}", tags=(("pci", f"0000:{n + 16:02x}:00.0"),))
        for n in range(n_gpus)
    )
    supplies = tuple(Entity(kind=EntityKind.SUPPLY, key=f"psu{n}", name=f"psu{n}") for n in range(len(bus_of_supply)))
    fed = [
        (psu.id, gpu.id)
        for psu, a in zip(supplies, bus_of_supply, strict=True)
        for gpu, b in zip(gpus, bus_of_gpu, strict=True)
        if a == b
    ]
    held = [(node.id, part.id) for part in (*supplies, *gpus)]
    rows = int(RATE_HZ * SECONDS)
    loads_a = [300.0 * bus_of_gpu.count(bus) / bus_of_supply.count(bus) / nominal_v for bus in bus_of_supply]

    def constant(values: list[float]) -> FloatArray:
        return np.tile(np.array(values), (rows, 1))

    volts, amperes = constant([nominal_v] * len(supplies)), constant(loads_a)
    volts[rows // 2] -= 0.02 * nominal_v
    if is_first_lost:
        amperes[rows // 2 :, 0] = 0.0
    frames = [
        frame_of(EntityKind.GPU, gpus, {"power_w": constant([300.0] * n_gpus)}, rate_hz=RATE_HZ, name="gpu_fast"),
        frame_of(
            EntityKind.SUPPLY,
            supplies,
            {"voltage_v": volts, "current_a": amperes},
            rate_hz=RATE_HZ,
            name="supply",
        ),
    ]
    topology = Topology(entities=(node, *supplies, *gpus), edges=(*held, *fed))
    write_recording(path, frames, topology=topology, meta=RecordingMeta(node="box", simulated=True))
    return path


@pytest.fixture
def four(tmp_path: Path) -> Path:
    return _recorded(
        tmp_path / "four.parquet", n_gpus=4, bus_of_gpu=[0, 0, 0, 1], bus_of_supply=[0, 0, 1], nominal_v=12.0
    )


_JOIN = "expected each GPU on one bus, or joins between the two"
_DESCRIBED = """
topology:
  feeds:
    - {name: A, nominal_v: 120, breaker_a: 20, curve: C}
  supplies:
    - {name: psu0, rated_w: 1100, feed: A, inlet: C13, plugs: [lug-M6, {plug: XT60, count: 2}]}
    - {name: psu1, rated_w: 1100, feed: A, inlet: C13, plugs: [banana]}
    - {name: psu2, rated_w: 200, feed: A}
  buses:
    - name: main
      nominal_v: 12
      supplies: [psu0, psu1]
      redundancy: N
      branches:
        - {gpus: [0, 1, 2], plugs_each: [{plug: 8-pin PCIe, count: 2}]}
        - {fans: true}
    - name: side
      nominal_v: 12
      supplies: [psu2]
      branches: [{gpus: ["0000:13:00.0"], plugs: [EPS12V]}]
"""


@pytest.fixture
def described(tmp_path: Path) -> Path:
    path = tmp_path / "railwatch.yaml"
    path.write_text(f"data_dir: {tmp_path / 'none'}\n{_DESCRIBED}")
    return path


@pytest.mark.parametrize("n_gpus", [4, 8, 16])
def test_every_gpu_and_supply_is_drawn_in_the_columns_of_a_terminal(n_gpus: int, run: Run, tmp_path: Path) -> None:
    buses = [int(gpu >= n_gpus - 1) for gpu in range(n_gpus)]
    path = _recorded(
        tmp_path / "a.parquet", n_gpus=n_gpus, bus_of_gpu=buses, bus_of_supply=[0, 0, 0, 1], nominal_v=54.0
    )
    status, out, _ = run("wiring", "show", path)
    assert status == 0
    assert max(map(len, out.splitlines())) <= TERMINAL_COLUMNS
    assert all(f"GPU {gpu} 300 W" in out for gpu in range(n_gpus))
    assert all(f"PSU {supply} " in out for supply in range(4))
    assert "lowest 52.92 V, +1.62 V from the limit of 51.30 V" in out
    assert out.startswith("box: wiring from the edges of the recording")


def test_where_all_gpus_hang_on_the_rails_of_one_voltage_the_wiring_is_marked_as_inferred(
    run: Run, tmp_path: Path
) -> None:
    path = _recorded(tmp_path / "a.parquet", n_gpus=4, bus_of_gpu=[0] * 4, bus_of_supply=[0, 0], nominal_v=12.0)
    status, out, _ = run("wiring", "show", path)
    assert status == 0
    assert out.startswith("box: wiring inferred from nominal voltages")
    assert "rating of PSUs 0-1" in out.partition("not known")[2]


def test_plugs_feeds_and_ratings_of_a_description_are_drawn_with_their_load(
    four: Path, described: Path, run: Run
) -> None:
    status, out, _ = run("wiring", "show", four, "--config", described)
    assert status == 0
    lines = [line.strip(" │├└─") for line in out.splitlines()]
    assert "feed A 120 V, breaker 20 A curve C" in lines
    assert "PSUs 0-2: up to 1200 W out, so about 11 of 20 A" in lines
    assert "in C13: about 4 of 10 A; out lug-M6 > 2x XT60: 2x XT60 38 of 60 A" in lines
    assert f"in C13: about 4 of 10 A; out banana: 38 of 15 A{OVER}" in lines or f"out banana: 38 of 15 A{OVER}" in lines
    assert "GPU 0 300 W 69%  GPU 1 300 W 69%  GPU 2 300 W 69%" in lines
    assert "GPU 3 through EPS12V: 25 of 32 A" in lines
    assert "plugs of PSU 2" in lines
    row = next(line for line in lines if line.startswith("PSU 2"))
    assert row.split() == ["PSU", "2", "A", "200", "W", "12.00", "11.76", "25.0", "25.0", "300", "150%", "over"]
    assert max(map(len, out.splitlines())) <= TERMINAL_COLUMNS


def test_a_supply_that_was_lost_a_while_ago_is_none_to_lose(described: Path, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "lost.parquet"
    buses = [0, 0, 0, 1]
    _recorded(path, n_gpus=4, bus_of_gpu=buses, bus_of_supply=[0, 0, 1], nominal_v=12.0, is_first_lost=True)
    status, out, _ = run("wiring", "show", path, "--config", described)
    assert status == 0
    assert "plugs of PSU 2" in out
    assert "without" not in out


def test_each_loss_is_drawn_with_the_supply_and_the_plug_that_it_leaves_nearest_to_their_ratings(
    four: Path, described: Path, run: Run
) -> None:
    _, out, _ = run("wiring", "show", four, "--config", described)
    assert out.partition("with one supply or feed lost\n")[2].splitlines() == [
        "  bus main",
        "    without PSU 0: PSU 1 900 of 1100 W (82%), steps 900 W",
        f"    without PSU 0: PSU 1 banana 75 of 15 A (500%){OVER}",
        "    without PSU 1: PSU 0 900 of 1100 W (82%), steps 900 W",
        f"    without PSU 1: PSU 0 2x XT60 75 of 60 A (125%){OVER}",
    ]


@pytest.mark.parametrize(
    ("limit_w", "step_w", "rate_hz", "is_drawn"),
    [(200.0, 311.0, 10.0, True), (200.0, 205.0, 10.0, False), (300.0, 350.0, 10.0, False), (200.0, 311.0, 1.0, False)],
)
def test_load_steps_over_a_power_limit_that_is_set_are_drawn_where_power_is_read_often(
    limit_w: float, step_w: float, rate_hz: float, run: Run, tmp_path: Path, *, is_drawn: bool
) -> None:
    # -pl 200 held the average of a V100 and let more than 300 W through (blbadger.github.io/gpu-server).
    node = Entity(kind=EntityKind.NODE, key="box", name="box")
    gpu = Entity(kind=EntityKind.GPU, key="GPU-00000000", name="gpu0")
    rows = np.arange(round(SECONDS * rate_hz))
    frames = [
        frame_of(EntityKind.GPU, (gpu,), {"power_w": np.where(rows % 4, 170.0, step_w)}, rate_hz=rate_hz, name="fast"),
        frame_of(
            EntityKind.GPU,
            (gpu,),
            {"power_limit_w": np.full(SECONDS, limit_w), "power_limit_default_w": np.full(SECONDS, 300.0)},
            rate_hz=1.0,
            name="slow",
        ),
        frame_of(EntityKind.SUPPLY, (supply(0),), {"voltage_v": np.full(SECONDS, 12.0)}, rate_hz=1.0, name="supply"),
    ]
    path = tmp_path / "limited.parquet"
    topology = Topology(entities=(node, supply(0), gpu), edges=((node.id, supply(0).id), (supply(0).id, gpu.id)))
    write_recording(path, frames, topology=topology, meta=RecordingMeta(node="box", simulated=True))
    _, out, _ = run("wiring", "show", path)
    assert ("GPU 0 limit 200 W, steps 311 W" in out) is is_drawn


def test_without_ratings_no_loss_is_drawn(four: Path, run: Run) -> None:
    _, out, _ = run("wiring", "show", four)
    assert "without" not in out


def test_without_samples_the_description_is_drawn_without_values(described: Path, run: Run) -> None:
    status, out, _ = run("wiring", "show", "--config", described)
    assert status == 0
    assert "GPUs 0-2 through 2x 8-pin PCIe each" in out
    assert " W out" not in out


def test_without_samples_and_a_description_the_command_names_what_is_missing(run: Run, tmp_path: Path) -> None:
    status, _, err = run("wiring", "show", "--data-dir", tmp_path)
    assert status == 3
    assert "railwatch is not running here" in err


def test_json_has_one_object_for_each_part_with_the_values(four: Path, described: Path, run: Run) -> None:
    status, out, _ = run("wiring", "show", four, "--config", described, "--json")
    assert status == 0
    parts = objects(out)
    kinds = ["wiring", "feed", "bus", "bus", *["supply"] * 3, *["gpu"] * 4, "loss", "loss"]
    assert [part["kind"] for part in parts] == kinds
    first = next(part for part in parts if part["kind"] == "loss")
    assert (first["bus"], first["supplies"], first["feed"]) == ("main", ["psu0"], None)
    assert [link["name"] for link in first["links"]] == ["banana", "C13", "psu1"]
    assert first["links"][0]["ratio"] == pytest.approx(5.0)
    supplies = {part["name"]: part for part in parts if part["kind"] == "supply"}
    assert supplies["psu0"]["lowest_v"] == pytest.approx(11.76)
    assert supplies["psu2"]["power_w"] == pytest.approx(300.0)
    assert [part["buses"] for part in parts if part["kind"] == "gpu"] == [["main"]] * 3 + [["side"]]


def test_a_description_that_fits_the_node_passes_the_check(four: Path, described: Path, run: Run) -> None:
    status, out, _ = run("wiring", "check", described, "--recording", four)
    assert (status, out) == (0, f"{described}: 2 buses; fits 4 GPUs of the node\n")
    status, out, _ = run("wiring", "check", described)
    assert (status, out) == (0, f"{described}: 2 buses; no node to compare with\n")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            ('["0000:13:00.0"]', '["0000:99:00.0"]'),
            "topology.buses[1].branches[0].gpus[0]: no GPU '0000:99:00.0'; expected a GPU of the node: GPUs 0-3",
        ),
        (
            ('["0000:13:00.0"]', '["0000:12:00.0"]'),
            f"topology.buses[1].branches[0].gpus: GPU 2 is on main and on side, which do not join; {_JOIN}",
        ),
        (
            ("gpus: [0, 1, 2]", "gpus: [0, 1]"),
            "topology.buses: no bus feeds GPU 2; expected each GPU in the gpus of a branch",
        ),
    ],
)
def test_a_description_that_does_not_fit_the_node_is_refused_by_line(
    change: tuple[str, str], problem: str, four: Path, described: Path, run: Run
) -> None:
    text = described.read_text().replace(*change)
    described.write_text(text)
    status, _, err = run("wiring", "check", described, "--recording", four)
    assert status == 1
    first, line, rest = err.splitlines()[0].split(":", 2)
    assert (first, rest.strip()) == (str(described), problem)
    assert 0 < int(line) <= len(text.splitlines())


def test_a_contradiction_in_the_file_is_wrong_use(described: Path, run: Run) -> None:
    described.write_text(described.read_text().replace("rated_w: 200", "rated_w: 0"))
    status, _, err = run("wiring", "check", described)
    assert status == 2
    assert err == f"{described}:9: topology.supplies[2].rated_w: got 0; expected above 0\n"


def _under_load(path: Path, *, in_step: bool = False) -> Path:
    """Write a recording of four GPUs of changing load on two buses; each supply feeds two of them."""
    rng = np.random.default_rng(4)
    rows = round(100.0 * RATE_HZ)
    starts = [np.cumsum(rng.integers(20, 60, rows)) for _ in range(4)]
    levels = [rng.uniform(80.0, 350.0, rows)[np.searchsorted(one, np.arange(rows), side="right")] for one in starts]
    power = np.stack([levels[0]] * 4 if in_step else levels, axis=1)
    gpus = tuple(Entity(kind=EntityKind.GPU, key=f"GPU-{n}", name=f"gpu{n}") for n in range(4))
    supplies = tuple(Entity(kind=EntityKind.SUPPLY, key=f"psu{n}", name=f"psu{n}") for n in range(2))
    current = np.stack([power[:, :2].sum(axis=1), power[:, 2:].sum(axis=1)], axis=1) / 12.0
    current += rng.normal(0.0, 0.1, current.shape)
    columns = {"voltage_v": np.full_like(current, 12.0), "current_a": current}
    frames = [
        frame_of(EntityKind.GPU, gpus, {"power_w": power}, rate_hz=RATE_HZ, name="gpu_fast"),
        frame_of(EntityKind.SUPPLY, supplies, columns, rate_hz=RATE_HZ, name="supply"),
    ]
    topology = Topology(entities=(*supplies, *gpus))
    write_recording(path, frames, topology=topology, meta=RecordingMeta(node="box", simulated=True))
    return path


def test_the_proposal_of_learn_is_a_description_that_fits_the_node(run: Run, tmp_path: Path) -> None:
    recording = _under_load(tmp_path / "load.parquet")
    status, out, err = run("wiring", "learn", recording)
    assert (status, err) == (0, "")
    assert "- gpu0 # more than 99.9 %" in out
    proposed = tmp_path / "proposed.yaml"
    proposed.write_text(out)
    status, out, _ = run("wiring", "check", proposed, "--recording", recording)
    assert (status, out) == (0, f"{proposed}: 2 buses; fits 4 GPUs of the node\n")
    status, out, _ = run("wiring", "learn", recording, "--json")
    assert [(link["id"], link["bus"], link["sure"]) for link in objects(out)] == [
        ("supply:psu0", "bus0", True),
        ("supply:psu1", "bus1", True),
        *((f"gpu:GPU-{n}", f"bus{n // 2}", True) for n in range(4)),
    ]


def test_gpus_that_moved_together_give_no_link(run: Run, tmp_path: Path) -> None:
    status, out, err = run("wiring", "learn", _under_load(tmp_path / "step.parquet", in_step=True))
    assert (status, out) == (1, "")
    assert err == "railwatch: not sure of any link: the GPUs moved together or not at all\n"


def test_options_of_an_experiment_are_refused_with_a_recording_and_not_ignored(four: Path, run: Run) -> None:
    status, out, err = run("wiring", "learn", four, "--experiment", "guided", "--watch", "30s")
    assert (status, out) == (2, "")
    assert f"--experiment: got guided for {four}; expected a run, whose GPUs can be moved" in err
    assert f"--watch: got 30 s for {four}; expected a run, to record its load steps" in err
    status, _, err = run("wiring", "learn", "--experiment", "none", "--watch", "30s")
    assert status == 2
    assert "--watch: got 30 s with --experiment none; expected an experiment to wait for" in err


def test_a_recording_that_is_too_short_to_learn_from_is_refused(four: Path, run: Run) -> None:
    status, _, err = run("wiring", "learn", four)
    assert status == 3
    assert "no power of supplies and GPUs over 80 s or longer to learn from" in err
