"""List of the commands with their summaries, so that the help loads none of them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCommand:
    """Command of the root: `summary` is the first paragraph of its own help; a group has no `example`."""

    name: str
    summary: str
    example: str | None = None


# A command is the function of its name in the module of its name; a group is the `app` there.
COMMANDS = (
    ListedCommand(
        name="up",
        summary="Run railwatch on this node: sampling, guard, store and web page.",
        example="railwatch up --simulate v100x4 --scenario psu-sag --for 60s",
    ),
    ListedCommand(
        name="actuatord",
        summary="Run the privileged actuator: it sets the GPU knobs that its own file allows, within its ranges.",
        example="railwatch actuatord --config /etc/railwatch/actuatord.yaml --check",
    ),
    ListedCommand(
        name="doctor",
        summary="Report what this node can measure and control, what is missing, and how to get it.",
        example="railwatch doctor --measure 10s --json",
    ),
    ListedCommand(
        name="record",
        summary="Record samples of a running node at full rate into one file, with records and kernel log.",
        example="railwatch record --duration 60s --out incident.parquet",
    ),
    ListedCommand(
        name="replay",
        summary="Run detectors and policies over a recording; nothing is changed, decisions are printed.",
        example="railwatch replay incident.parquet --json",
    ),
    ListedCommand(
        name="rehearse",
        summary="Run a scenario with and without railwatch, and compare GPU drops, goodput and actions.",
        example="railwatch rehearse psu-sag --seeds 3",
    ),
    ListedCommand(
        name="evaluate",
        summary="Score detection and classification on simulated and real data against their goals.",
        example="railwatch evaluate judgement --seeds 3 --json",
    ),
    ListedCommand(
        name="clocks",
        summary="Report what held each GPU below its highest clock, for how long, and at what cost.",
        example="railwatch clocks monday.parquet --json",
    ),
    ListedCommand(
        name="backtest",
        summary="Score every row of a CSV table against its healthy first part, and flag anomalies.",
        example="railwatch backtest node.csv --time time_s --columns power_w,gpu_temp_c --out scores.csv",
    ),
    ListedCommand(
        name="fleet",
        summary="Judge all nodes that write to one store, with the detectors of a node and those that compare nodes.",
    ),
    ListedCommand(name="incidents", summary="List and show incidents, with the evidence and what was done."),
    ListedCommand(name="actions", summary="List, show, verify, approve and release actions."),
    ListedCommand(name="recordings", summary="List and show the recordings of the flight recorder."),
    ListedCommand(name="rules", summary="List, show, compare, explain, check and test policies."),
    ListedCommand(name="simulate", summary="GPU nodes as physics: list, look at, run, serve and check them."),
    ListedCommand(name="logs", summary="Find GPU and PCIe errors in kernel logs."),
    ListedCommand(name="explain", summary="Explain an Xid, a cause or an incident, and what to do about it."),
    ListedCommand(name="config", summary="Check a configuration file, show the one in force, or print a sample."),
    ListedCommand(name="dashboards", summary="Export dashboards for Grafana."),
    ListedCommand(name="supply", summary="Estimate the source resistance of a supply path from logged data."),
    ListedCommand(name="models", summary="Calibrate thresholds from healthy recordings, for a budget of pages."),
    ListedCommand(
        name="baselines",
        summary="List the learnt baselines of a running node, and accept a new normal state.",
    ),
    ListedCommand(name="dither", summary="Plan and judge an experiment: which GPU moves a supply voltage."),
    ListedCommand(name="notify", summary="Test the notification routes, and show what they sent and hold."),
)
