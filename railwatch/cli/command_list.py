"""What there is to call, and how the help lists it before any of it is loaded."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCommand:
    """A command of the root: `summary` is the first paragraph of its own help; a group has no `example`."""

    name: str
    summary: str
    example: str | None = None


# A command is the function of its name in the module of its name, a group is the `app` there.
COMMANDS = (
    ListedCommand(
        name="up",
        summary="Run everything on this node: agent, guard, store and page.",
        example="railwatch up --simulate v100x4 --scenario psu-sag --for 60s",
    ),
    ListedCommand(
        name="actuatord",
        summary="Turn GPU knobs for an agent without privileges: the ones, within the ranges, that a file of its own"
        " allows.",
        example="railwatch actuatord --config /etc/railwatch/actuatord.yaml --check",
    ),
    ListedCommand(
        name="doctor",
        summary="Say what this node can measure and do. Reads only; exit status 1 where neither GPU nor supply can be"
        " read.",
        example="railwatch doctor --measure 10s --json",
    ),
    ListedCommand(
        name="record",
        summary="Write samples at full rate with topology, configuration, records and kernel log to one file.",
        example="railwatch record --duration 60s --out incident.parquet",
    ),
    ListedCommand(
        name="replay",
        summary="Run detectors, incidents and rules over a recording; nothing is carried out, decisions say what"
        " would be.",
        example="railwatch replay incident.parquet --json",
    ),
    ListedCommand(
        name="rehearse",
        summary="Close the loop on a simulated node: what would have dropped, what railwatch does about it, and what"
        " that costs.",
        example="railwatch rehearse psu-sag --seeds 3",
    ),
    ListedCommand(
        name="evaluate",
        summary="Score the judgement against simulated and real data; exit 1 says which rows missed their goal.",
        example="railwatch evaluate judgement --seeds 3 --json",
    ),
    ListedCommand(
        name="clocks",
        summary="Say how long each reason held a GPU below its highest clock, and how much clock that cost.",
        example="railwatch clocks monday.parquet --json",
    ),
    ListedCommand(
        name="backtest",
        summary="Score every row of a table of series against its first, healthy share, and flag what stands out.",
        example="railwatch backtest node.csv --time time_s --columns power_w,gpu_temp_c --out scores.csv",
    ),
    ListedCommand(
        name="fleet",
        summary="Judge all nodes that write to one store: the same detectors, and what only shows across nodes.",
    ),
    ListedCommand(name="incidents", summary="What was found, and the numbers that say so."),
    ListedCommand(name="actions", summary="What was changed, by whom and why, and taking it back."),
    ListedCommand(name="recordings", summary="What the flight recorder wrote."),
    ListedCommand(name="rules", summary="The policies in force, what they say, and whether they do what they say."),
    ListedCommand(name="simulate", summary="GPU nodes as physics: list, look at, run, serve and check them."),
    ListedCommand(name="logs", summary="Read kernel logs."),
    ListedCommand(name="explain", summary="Explain a code, a cause or an incident in words a person can act on."),
    ListedCommand(name="config", summary="Check, show or start a configuration file."),
    ListedCommand(name="dashboards", summary="Grafana dashboards to import."),
    ListedCommand(name="supply", summary="Supply paths: what they are made of."),
    ListedCommand(name="models", summary="What the judgement learnt from data: thresholds for a budget."),
    ListedCommand(
        name="baselines",
        summary="What is learnt of each entity and then frozen, and accepting another; of a run that goes on.",
    ),
    ListedCommand(name="dither", summary="An experiment that proves whose current moves a voltage."),
    ListedCommand(name="notify", summary="Try the ways to people, and see what waits on them."),
)
