"""Plot of the signals around an incident; matplotlib is imported only when a plot is requested."""

from pathlib import Path
from typing import Any

import numpy as np

from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind, label_of_id
from telemetry.errors import EnvironmentLacksError
from telemetry.frames import Frame
from telemetry.records import Incident
from telemetry.series import FULL_RATE, SampleReader, step_for

# heuristic: a minute on either side shows the usual values.
_MARGIN_NS = 60 * NS_PER_S
# heuristic: longer incidents are plotted from rollups, as a curve has more rows than the plot has columns.
_LONGEST_RAW_NS = 600 * NS_PER_S
# Panels, from the supply to the air.
_PANELS: tuple[tuple[EntityKind, str, str], ...] = (
    (EntityKind.SUPPLY, "voltage_v", "V"),
    (EntityKind.SUPPLY, "current_a", "A"),
    (EntityKind.GPU, "power_w", "W"),
    (EntityKind.GPU, "sm_clock_mhz", "MHz"),
    (EntityKind.GPU, "gpu_temp_c", "°C"),
    (EntityKind.NODE, "inlet_temp_c", "°C"),
)
_MOST_LINES = 16


def plot(incident: Incident, samples: SampleReader | None, path: Path) -> None:
    """Plot the signals from a minute before the incident to a minute after it.

    Raises
    ------
    EnvironmentLacksError
        matplotlib is not installed, no samples of that time are stored, or the file cannot be written.
    TransientError
        The samples cannot be read now.
    """
    figures = _matplotlib()
    if samples is None:
        raise EnvironmentLacksError("the data folder has no embedded store; name a recording with --recording")
    start_ns, stop_ns = incident.opened_ns - _MARGIN_NS, (incident.closed_ns or incident.time_ns) + _MARGIN_NS
    # A store keeps full-rate samples for days and rollups for a year.
    raw = stop_ns - start_ns <= _LONGEST_RAW_NS and _panels(samples, start_ns, stop_ns, FULL_RATE)
    panels = raw or _panels(samples, start_ns, stop_ns, step_for(stop_ns - start_ns))
    if not panels:
        raise EnvironmentLacksError(f"incident {incident.id}: no samples of that time are stored")
    figure, axes = figures.subplots(len(panels), 1, sharex=True, squeeze=False, figsize=(9, 1.9 * len(panels)))
    for axis, (signal, unit, frame) in zip(axes[:, 0], panels, strict=True):
        _draw(axis, frame, incident)
        axis.set_ylabel(f"{signal.rpartition('_')[0]} [{unit}]")
    axes[-1, 0].set_xlabel("seconds since the incident began")
    title = f"{incident.cause.value} on {label_of_id(incident.entity_id)}, {incident.id}"
    axes[0, 0].set_title(title, fontsize="medium")
    figure.tight_layout()
    try:
        figure.savefig(path)
    except OSError as err:
        raise EnvironmentLacksError(f"{path}: {err.strerror}") from err
    finally:
        figures.close(figure)


def _matplotlib() -> Any:
    try:
        import matplotlib as mpl  # noqa: PLC0415  # heavy, and only a picture needs it
    except ImportError as err:
        raise EnvironmentLacksError("matplotlib is not installed; --plot needs it: pip install matplotlib") from err
    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    return plt


def _panels(samples: SampleReader, start_ns: int, stop_ns: int, step_ns: int) -> list[tuple[str, str, Frame]]:
    found = []
    for kind, signal, unit in _PANELS:
        frame = samples.series(kind, (signal,), start_ns=start_ns, stop_ns=stop_ns, step_ns=step_ns)
        if len(frame):
            found.append((signal, unit, frame))
    return found


def _draw(axis: Any, frame: Frame, incident: Incident) -> None:
    seconds = (frame.time_ns - incident.opened_ns) / NS_PER_S
    concerned = {incident.entity_id, *incident.affected}
    for index, entity in enumerate(frame.spec.entities[:_MOST_LINES]):
        values = frame.values[:, index, 0]
        known = ~np.isnan(values)
        strong = entity.id in concerned
        # A value holds until the next update of the sensor.
        look = {"linewidth": 1.6 if strong else 0.8, "alpha": 1.0 if strong else 0.6, "drawstyle": "steps-post"}
        axis.plot(seconds[known], values[known], label=entity.label, **look)
    end_s = ((incident.closed_ns or incident.time_ns) - incident.opened_ns) / NS_PER_S
    axis.axvspan(0.0, max(end_s, 0.1), color="tab:red", alpha=0.08)
    axis.legend(loc="upper right", fontsize="x-small", ncols=4)
