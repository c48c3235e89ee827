"""Every benchmark there is."""

from bench import agent_cost, detectors, fidelity, hwmon, ingest, reaction, simulator, whole_node
from bench.rows import Benchmark

BENCHMARKS: tuple[Benchmark, ...] = (
    Benchmark(
        name="agent_cost",
        summary="CPU and memory of the sampler on 8 GPUs, against pynvml, nvitop, gpustat and an XML poller",
        run=agent_cost.run,
    ),
    Benchmark(
        name="whole_node",
        summary="CPU and memory of all processes of railwatch up at its defaults, against a plain poll and nvitop",
        run=whole_node.run,
    ),
    Benchmark(
        name="fidelity",
        summary="share of the sensors' updates that are kept, once, against the simulated driver's own log of them",
        run=fidelity.run,
    ),
    Benchmark(
        name="reaction",
        summary="from the sample that crosses the limit to the clock-cap call, through guard and actuator process",
        run=reaction.run,
    ),
    Benchmark(
        name="ingest",
        summary="values per client CPU second into a real InfluxDB, against influxdb-client Points",
        run=ingest.run,
    ),
    Benchmark(
        name="simulator",
        summary="simulated time per CPU second: nodes and racks in milliseconds, fleets in hours, as they grow",
        run=simulator.run,
    ),
    Benchmark(
        name="detectors",
        summary="CPU and memory of all detectors from 8 to 100,000 GPUs, and per value against river and scikit-learn",
        run=detectors.run,
    ),
    Benchmark(
        name="hwmon",
        summary="CPU of four rails at 1 kHz, and how many dips of 5 ms are seen with their minimum",
        run=hwmon.run,
    ),
)
