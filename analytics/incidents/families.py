"""Families of causes: within one, a cause may explain another, so both belong to one incident."""

from telemetry.records import Cause, Finding

# In each family from the root towards what follows from it: a joint that ages lets the rail sag, a rail that sags makes
# the platform pull the brake, a brake slows the hardware; air that is too warm or a bad interface eats the thermal
# margin; a GPU that is off the bus leaves its node with less to draw, and goes on to report other errors; a loose
# module hangs the job or makes one rank lag.
# Ratings are a family of their own: what would happen after a loss is no symptom of one, and lasts for months.
FAMILIES: tuple[tuple[Cause, ...], ...] = (
    (
        Cause.INPUT_SAG,
        Cause.SUPPLY_LOST,
        Cause.JOINT_AGEING,
        Cause.FEED_IMBALANCE,
        Cause.SUPPLY_OVERLOAD,
        Cause.SYNCHRONOUS_OVERLOAD,
        Cause.SUPPLY_SAG,
        Cause.POWER_BRAKE,
        Cause.HW_SLOWDOWN,
    ),
    (Cause.AIRFLOW, Cause.THERMAL_INTERFACE, Cause.THERMAL_MARGIN),
    (Cause.GPU_LOST, Cause.ODD_NODE, Cause.GPU_ERROR),
    (Cause.LOOSE_MODULE, Cause.HANG, Cause.STRAGGLER),
    (Cause.FABRIC_ERROR,),
    (Cause.SENSOR_FAULT, Cause.SENSOR_LOST),
    (Cause.NOVELTY,),
    (Cause.FEED_OVER_RATING, Cause.PLUG_OVER_RATING, Cause.REDUNDANCY_LOST, Cause.STEPS_OVER_LIMIT),
    (Cause.EFFICIENCY_LOSS,),
)
ELECTRICAL, HEAT, LOSS, MODULE, FABRIC, SENSORS = range(6)
STORM = -1
# The findings of which other families can have to do with an incident: a lost GPU with its supply and its links, a
# contradiction between sensors with whatever was read from them.
BESIDE: dict[int, frozenset[int]] = {
    ELECTRICAL: frozenset({SENSORS}),
    HEAT: frozenset({SENSORS}),
    LOSS: frozenset({ELECTRICAL, MODULE, FABRIC}),
    MODULE: frozenset({LOSS, FABRIC}),
    FABRIC: frozenset({LOSS, MODULE}),
    SENSORS: frozenset({LOSS}),
}
# What stays while an action holds the symptom down: a cap lifts the rail, and mends no joint.
STANDING = frozenset(
    {
        Cause.INPUT_SAG,
        Cause.SUPPLY_LOST,
        Cause.JOINT_AGEING,
        Cause.FEED_IMBALANCE,
        Cause.SUPPLY_OVERLOAD,
        Cause.SYNCHRONOUS_OVERLOAD,
    }
)
# Links and collectives join the GPUs of a node, so that what happens to one concerns all.
JOINS_SIBLINGS = frozenset({MODULE, FABRIC})
# What becomes one incident in an alarm flood. Not in it is what an answer within seconds hangs on: power, heat, a GPU
# that is gone, a job that hangs.
FOLDS = frozenset(
    {
        Cause.GPU_ERROR,
        Cause.FABRIC_ERROR,
        Cause.LOOSE_MODULE,
        Cause.STRAGGLER,
        Cause.SENSOR_FAULT,
        Cause.SENSOR_LOST,
        Cause.NOVELTY,
    }
)
_FAMILY = {cause: number for number, family in enumerate(FAMILIES) for cause in family}
_RANK = {cause: rank for family in FAMILIES for rank, cause in enumerate(family)}
# Beside a lost GPU an error of the fabric is what follows, though it has a family of its own.
_RANK[Cause.FABRIC_ERROR] = _RANK[Cause.GPU_ERROR]


def family_of(cause: Cause) -> int:
    """Return the number of a cause's family."""
    return _FAMILY[cause]


def rank_of(cause: Cause) -> int:
    """Return the distance of a cause from the root of its family, 0 at the root."""
    return _RANK[cause]


def explains(cause: Cause, other: Cause) -> bool:
    """Return True if a cause at a parent explains another at its child."""
    return family_of(cause) == family_of(other) and rank_of(cause) <= rank_of(other)


def points_to_parent(cause: Cause) -> bool:
    """Return True if siblings with this cause point to what they share.

    A bad thermal interface is found by comparison with the siblings, so it names the part itself, be it on two of them.
    """
    return cause is not Cause.THERMAL_INTERFACE


def finding_key(finding: Finding) -> str:
    """Return the part of a finding's id that stays the same when it is raised again: the id without its begin."""
    return finding.id.rpartition(":")[0] or finding.id
