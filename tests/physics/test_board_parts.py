"""The table of parts: each with a source, found by the driver's name, honest about what it does not know."""

import numpy as np
import pytest

from physics.board_parts import PARTS, BoardPart, part_of
from simulator.files.node import load_node
from simulator.plant.power import part_power

NAMES = {
    "Tesla V100-SXM2-16GB": "V100 SXM2",
    "Tesla V100-SXM2-32GB": "V100 SXM2",
    "Tesla V100-PCIE-32GB": "V100 PCIe",
    "Tesla V100S-PCIE-32GB": "V100S PCIe",
    "Tesla T4": "T4",
    "NVIDIA A100-SXM4-40GB": "A100 SXM4",
    "NVIDIA A100 80GB PCIe": "A100 80GB PCIe",
    "NVIDIA A100-PCIE-40GB": "A100 40GB PCIe",
    "NVIDIA A40": "A40",
    "NVIDIA A10": "A10",
    "NVIDIA L4": "L4",
    "NVIDIA L40": "L40",
    "NVIDIA L40S": "L40S",
    "NVIDIA RTX 6000 Ada Generation": "RTX 6000 Ada",
    "NVIDIA H100 80GB HBM3": "H100 SXM5",
    "NVIDIA H100 PCIe": "H100 PCIe",
    "NVIDIA H100 NVL": "H100 NVL",
    "NVIDIA H200": "H200 SXM",
    "NVIDIA H200 NVL": "H200 NVL",
    "NVIDIA B200": "B200",
    "NVIDIA GeForce RTX 4090": "GeForce RTX 4090",
    "NVIDIA GeForce RTX 5090": "GeForce RTX 5090",
}


@pytest.mark.parametrize(("model", "name"), NAMES.items())
def test_the_drivers_name_leads_to_the_part(model: str, name: str) -> None:
    part = part_of(model)
    assert part is not None
    assert part.name == name


@pytest.mark.parametrize(
    "model",
    [
        None,
        "",
        "NVIDIA GB200",
        "NVIDIA GH200 480GB",
        "NVIDIA A10G",
        "AMD Instinct MI300X",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 5090 Laptop GPU",
    ],
)
def test_another_name_leads_to_no_part(model: str | None) -> None:
    assert part_of(model) is None


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_each_part_has_a_source_and_a_stated_uncertainty(part: BoardPart) -> None:
    assert len(part.source) > 5
    assert 0.0 < part.idle_w < 0.25 * part.board_w
    assert 0.0 < part.idle_sd_w < part.board_w
    assert part.max_mhz > 1000.0
    bounds = part.curve().predict(part.board_w, 1.0, 0.6)
    assert 0.25 * part.board_w < bounds.low_w < bounds.power_w < bounds.high_w < 0.95 * part.board_w
    assert (bounds.high_w - bounds.low_w) / bounds.power_w > 0.2, "one load at two clocks does not make it certain"


@pytest.mark.parametrize("name", ["v100x4", "a100x8", "h100x8", "b200x8", "rtx5090x2"])
def test_the_bounds_of_the_table_hold_the_simulated_boards(name: str) -> None:
    gpu = load_node(name).gpu
    part, power = part_of(gpu.name), part_power(gpu)
    assert part is not None
    at = np.array([0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    drawn_w = power.power_w(at * gpu.clocks.max_mhz, np.ones(7), np.full(7, 60.0))
    for ratio, true_w in zip(at.tolist(), drawn_w.tolist(), strict=True):
        bounds = part.curve().predict(float(drawn_w[-1]), 1.0, ratio)
        assert bounds.low_w <= true_w <= bounds.high_w
