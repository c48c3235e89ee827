"""Make the recordings of this folder again: ``python -m tests.evaluation.recordings.make``.

`pair-of-120-v`: two feeds of 2.5 A each, of which one carries 15 % less from 480 s on. `feed-at-0-v`: four feeds of
206 V and 4 A, of which one is at 0 V from 480 to 527 s.

Servers on alternating current as MLPerf's power logs show them: mains that drift, a job in steps, feeds whose shares
differ by some per cent, meters in steps of 10 mV, 1 mA and 0.1 W, read once a second.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from evaluation.injection import feeds
from evaluation.injection.traces import FeedTrace
from telemetry.clock import NS_PER_S
from telemetry.recording import RecordingMeta, write_recording

FOLDER = Path(__file__).parent
START_NS = 1_795_420_800 * NS_PER_S
ROWS, FROM = 600, 480


def server(*, volts: float, amps: float, n_feeds: int, seed: int) -> FeedTrace:
    """Return a healthy server whose feeds carry about `amps` each under load."""
    rng = np.random.default_rng(seed)
    job = np.where((np.arange(ROWS) // 20) % 3 == 2, 0.75, 1.0) * (1.0 + rng.normal(0.0, 0.004, ROWS))
    shares = 1.0 + np.linspace(-0.02, 0.02, n_feeds)
    watts = 0.97 * volts * amps * np.outer(job, shares) * (1.0 + rng.normal(0.0, 0.001, (ROWS, n_feeds)))
    drift_v = 0.004 * volts * np.sin(np.arange(ROWS) / 90.0 + seed)
    open_v = volts + drift_v[:, np.newaxis] + rng.normal(0.0, 0.03, (ROWS, n_feeds))
    shown_v = open_v - 0.2 * watts / open_v
    return FeedTrace(
        name="server",
        time_ns=START_NS + np.arange(ROWS) * NS_PER_S,
        voltage_v=shown_v,
        current_a=watts / shown_v / 0.97,
        power_w=watts,
    )


def made() -> dict[str, FeedTrace]:
    """Return the recordings by name."""
    pair = server(volts=120.0, amps=2.5, n_feeds=2, seed=1)
    four = server(volts=206.0, amps=4.0, n_feeds=4, seed=2)
    return {
        "pair-of-120-v": feeds.moved_share(pair, slice(FROM, ROWS), feed=1, by=-0.15),
        "feed-at-0-v": feeds.outage(four, slice(FROM, FROM + 47), feed=2),
    }


def main() -> None:
    """Write all recordings."""
    for name, trace in made().items():
        shown = replace(
            trace,
            voltage_v=np.round(trace.voltage_v, 2),
            current_a=np.round(trace.current_a, 3),
            power_w=np.round(trace.power_w, 1),
        )
        write_recording(FOLDER / f"{name}.parquet", [shown.frame()], topology=shown.topology(), meta=RecordingMeta())


if __name__ == "__main__":
    main()
