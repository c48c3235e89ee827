"""The table of fingerprints: how likely each sign is under each class of root cause.

Every number stands with its source. "assumption" is the project's own estimate from how the thing works; the evaluation
measures what the whole table is worth, and one temperature puts its confidence right. A class that a row does not name
has the row's `otherwise`. The priors stand in `classes`, what does not go together in `contradictions`.
"""

from analytics.classification.classes import (
    AIR,
    BARE,
    DRIVER,
    EXPORTER,
    HANG,
    INPUT,
    INTERFACE,
    JOINT,
    LOOSE,
    LOST,
    OVERLOAD,
    SENSOR,
    SYNCHRONOUS,
    UNKNOWN,
)
from analytics.classification.sign import Row, Sign

# own choice: a symptom that five classes share tells half of what its number says; a telling of somebody else, whose
# clock and wording are not ours, four fifths.
_SYMPTOM, _TOLD, _FINGERPRINT = 0.5, 0.8, 1.0
_RARE = "assumption: by chance within the same minutes"
_BY_DEFINITION = "the detector's own rule, less what its gates refuse (assumption: 5 to 10 %)"
_SOMETIMES = "assumption: it may, and mostly does not"

ROWS: tuple[Row, ...] = (
    Row(
        sign=Sign.SAG,
        weight=_SYMPTOM,
        otherwise=(0.01, _RARE),
        given=(
            (JOINT, 0.6, "assumption: only once it is far gone; before that the resistance alone tells"),
            (LOST, 0.7, "assumption: at a load that needs all supplies"),
            (OVERLOAD, 0.9, "assumption: this is how it shows"),
            (SYNCHRONOUS, 0.9, "assumption: this is how it shows"),
            (INPUT, 0.8, "assumption: unless the supplies hold their output"),
            (SENSOR, 0.2, "assumption: one of several ways in which a voltage can lie"),
            (UNKNOWN, 0.5, "assumption: nothing speaks for one of the above"),
        ),
    ),
    Row(
        sign=Sign.BRAKE,
        weight=_SYMPTOM,
        otherwise=(0.02, _RARE),
        given=(
            (JOINT, 0.3, "assumption: pulled at 10.9 V, below where GPUs fall off in the field report"),
            (LOST, 0.5, "server boards pull the brake when redundancy is lost (vendor manuals; share: assumption)"),
            (OVERLOAD, 0.5, "the same line answers over-current (share: assumption)"),
            (SYNCHRONOUS, 0.3, "assumption: dips are short"),
            (INPUT, 0.4, "assumption: as for a lost supply, less often"),
            (UNKNOWN, 0.4, "assumption: nothing speaks for one of the above"),
        ),
    ),
    Row(
        sign=Sign.BRAKE_ALONE,
        weight=_FINGERPRINT,
        otherwise=(0.01, _RARE),
        given=(
            (
                OVERLOAD,
                0.5,
                "the system power supply pulls it (nvml.h, power brake slowdown), before the rail falls; assumption",
            ),
            (SYNCHRONOUS, 0.05, "assumption: dips that pull it show on the rail"),
            (LOST, 0.05, "assumption: a lost branch shows in its current"),
            (INPUT, 0.05, "assumption: a supply that warns of its input while it still holds its output"),
            (UNKNOWN, 0.1, "assumption: a board controller that caps power, a line that is shorted"),
        ),
    ),
    Row(
        sign=Sign.SLOWDOWN,
        weight=_SYMPTOM,
        otherwise=(0.02, _RARE),
        given=(
            (JOINT, 0.2, _SOMETIMES),
            (LOST, 0.3, _SOMETIMES),
            (OVERLOAD, 0.3, _SOMETIMES),
            (SYNCHRONOUS, 0.2, _SOMETIMES),
            (INPUT, 0.2, _SOMETIMES),
            (UNKNOWN, 0.4, "assumption: nothing speaks for one of the above"),
        ),
    ),
    Row(
        sign=Sign.RESISTANCE_UP,
        weight=_FINGERPRINT,
        otherwise=(0.01, "assumption: one false alarm of a CUSUM in a year or less, see docs on source resistance"),
        given=(
            (JOINT, 0.95, _BY_DEFINITION),
            (LOST, 0.3, "N / (N - 1) on N supplies in parallel; mostly told as a lost supply"),
            (UNKNOWN, 0.03, _RARE),
        ),
    ),
    Row(
        sign=Sign.SUPPLY_OUT,
        weight=_FINGERPRINT,
        otherwise=(0.005, _RARE),
        given=(
            (LOST, 0.9, _BY_DEFINITION),
            (JOINT, 0.03, "assumption: a joint that fails at once looks like a supply that does"),
            (INPUT, 0.03, "assumption: one supply of several on another feed"),
            (UNKNOWN, 0.02, _RARE),
        ),
    ),
    Row(
        sign=Sign.LOAD_BEYOND_PATH,
        weight=_FINGERPRINT,
        otherwise=(0.01, _RARE),
        given=(
            (OVERLOAD, 0.9, _BY_DEFINITION),
            (SYNCHRONOUS, 0.2, "assumption: a step is a load as well"),
            (LOST, 0.15, "assumption: what is left carries the load of all"),
            (UNKNOWN, 0.03, _RARE),
        ),
    ),
    Row(
        sign=Sign.DIPS_WITH_STEPS,
        weight=_FINGERPRINT,
        otherwise=(0.01, _RARE),
        given=(
            (SYNCHRONOUS, 0.9, _BY_DEFINITION),
            (OVERLOAD, 0.25, "assumption: an overloaded path dips deepest at a step"),
            (JOINT, 0.1, "assumption: as for an overloaded path, until the resistance tells"),
            (UNKNOWN, 0.03, _RARE),
        ),
    ),
    Row(
        sign=Sign.VOLTAGE_DOWN,
        weight=_FINGERPRINT,
        otherwise=(0.005, _RARE),
        given=(
            (INPUT, 0.95, _BY_DEFINITION),
            (LOST, 0.1, "assumption: set points differ, so the bus moves when one of them goes"),
            (UNKNOWN, 0.02, _RARE),
        ),
    ),
    Row(
        sign=Sign.SUPPLIES_TOGETHER,
        weight=_SYMPTOM,
        otherwise=(0.1, "assumption: two things at once"),
        given=(
            (INPUT, 0.95, "what they share is the input"),
            (OVERLOAD, 0.7, "supplies on one bus see one load"),
            (SYNCHRONOUS, 0.7, "supplies on one bus see one load"),
            (LOST, 0.5, "those that are left see its load"),
            (JOINT, 0.4, "assumption: a joint of one branch moves the bus of all, less"),
            (SENSOR, 0.05, "a sensor is bad by itself"),
            (UNKNOWN, 0.5, "assumption: nothing speaks for one of the above"),
        ),
    ),
    Row(
        sign=Sign.SUPPLY_EVENT,
        weight=_TOLD,
        otherwise=(0.01, _RARE),
        given=(
            (LOST, 0.5, "IPMI 2.0 table 42-3, power supply: failure (share that is logged: assumption)"),
            (OVERLOAD, 0.15, "over-current warning on PMBus supplies (share: assumption)"),
            (INPUT, 0.1, _SOMETIMES),
            (UNKNOWN, 0.05, _RARE),
        ),
    ),
    Row(
        sign=Sign.INPUT_EVENT,
        weight=_TOLD,
        otherwise=(0.005, _RARE),
        given=(
            (
                INPUT,
                0.5,
                "IPMI 2.0 table 42-3, power supply: input lost or out of range; a UPS on battery (share: assumption)",
            ),
            (LOST, 0.1, "assumption: a pulled plug is told as input lost too"),
            (UNKNOWN, 0.01, _RARE),
        ),
    ),
    Row(
        sign=Sign.ELECTRICAL,
        weight=_FINGERPRINT,
        otherwise=(0.03, _RARE),
        given=(
            (JOINT, 0.95, "GPUs fall off at 11.2 to 11.4 V, which is below the limit of the sag (field report)"),
            (LOST, 0.95, "as for a joint"),
            (OVERLOAD, 0.95, "as for a joint"),
            (SYNCHRONOUS, 0.95, "as for a joint"),
            (INPUT, 0.9, "assumption: unless it is over before a sample is taken"),
            (BARE, 0.02, "what the words mean"),
            (UNKNOWN, 0.3, "assumption"),
        ),
    ),
    Row(
        sign=Sign.ONE_HOT,
        weight=_FINGERPRINT,
        otherwise=(0.01, _RARE),
        given=(
            (INTERFACE, 0.95, _BY_DEFINITION),
            (AIR, 0.08, "assumption: a blocked duct of one slot"),
            (LOOSE, 0.05, "assumption: the screws hold the cooler too"),
            (SENSOR, 0.03, _RARE),
            (UNKNOWN, 0.03, _RARE),
        ),
    ),
    Row(
        sign=Sign.HEAT_GROWS_WITH_POWER,
        weight=_FINGERPRINT,
        otherwise=(0.5, "says nothing"),
        given=(
            (INTERFACE, 0.95, "excess = power x extra resistance"),
            (AIR, 0.3, "warm air adds the same at any power; too little air does not"),
            (SENSOR, 0.1, "an offset is the same at any power"),
        ),
    ),
    Row(
        sign=Sign.WARM_AIR,
        weight=_FINGERPRINT,
        otherwise=(0.01, _RARE),
        given=(
            (AIR, 0.95, _BY_DEFINITION),
            (INTERFACE, 0.08, "assumption: a GPU alone in its node cannot be compared"),
            (UNKNOWN, 0.05, "assumption"),
        ),
    ),
    Row(
        sign=Sign.SEVERAL_HOT,
        weight=_SYMPTOM,
        otherwise=(0.02, _RARE),
        given=(
            (AIR, 0.9, "what they share is the air"),
            (INTERFACE, 0.08, "assumption: several coolers mounted badly on one day"),
            (UNKNOWN, 0.6, "assumption: a heavy load in a warm room"),
        ),
    ),
    Row(
        sign=Sign.THIN_MARGIN,
        weight=_SYMPTOM,
        otherwise=(0.02, _RARE),
        given=(
            (INTERFACE, 0.6, "assumption: only at high load"),
            (AIR, 0.7, "assumption: only at high load"),
            (UNKNOWN, 0.8, "assumption: a heavy load in a warm room does it without any fault"),
        ),
    ),
    Row(
        sign=Sign.FAN_EVENT,
        weight=_TOLD,
        otherwise=(0.01, _RARE),
        given=((AIR, 0.5, "IPMI 2.0 table 42-3, fan (share that is logged: assumption)"), (UNKNOWN, 0.02, _RARE)),
    ),
    Row(
        sign=Sign.LOST,
        weight=_FINGERPRINT,
        otherwise=(0.02, _RARE),
        given=(
            (BARE, 0.95, "what the words mean"),
            (JOINT, 0.15, "assumption: late, and only where nobody acts"),
            (LOST, 0.1, _SOMETIMES),
            (OVERLOAD, 0.15, _SOMETIMES),
            (SYNCHRONOUS, 0.15, _SOMETIMES),
            (INPUT, 0.1, _SOMETIMES),
            (LOOSE, 0.2, "assumption: a module that comes off"),
            (DRIVER, 0.1, "assumption: a GPU that its firmware leaves"),
            (UNKNOWN, 0.3, "assumption"),
        ),
    ),
    Row(
        sign=Sign.SEVERAL_LOST,
        weight=_SYMPTOM,
        otherwise=(0.02, _RARE),
        given=(
            (JOINT, 0.15, "assumption: one dip reaches all on the rail"),
            (LOST, 0.15, "as for a joint"),
            (OVERLOAD, 0.15, "as for a joint"),
            (SYNCHRONOUS, 0.15, "as for a joint"),
            (INPUT, 0.15, "as for a joint"),
            (BARE, 0.1, "assumption: a riser or a switch above them"),
            (UNKNOWN, 0.1, "assumption"),
        ),
    ),
    Row(
        sign=Sign.OFF_BUS,
        weight=_SYMPTOM,
        otherwise=(0.02, _RARE),
        given=(
            (BARE, 0.9, "NVIDIA Xid catalogue, Xid 79: fallen off the bus"),
            (JOINT, 0.15, "as for a lost GPU"),
            (LOST, 0.1, "as for a lost GPU"),
            (OVERLOAD, 0.15, "as for a lost GPU"),
            (SYNCHRONOUS, 0.15, "as for a lost GPU"),
            (INPUT, 0.1, "as for a lost GPU"),
            (LOOSE, 0.2, "as for a lost GPU"),
            (DRIVER, 0.05, "a driver that lost a GPU finds its PCI device there"),
            (UNKNOWN, 0.25, "assumption"),
        ),
    ),
    Row(
        sign=Sign.LINK_ERRORS,
        weight=_FINGERPRINT,
        otherwise=(0.02, _RARE),
        given=(
            (LOOSE, 0.8, "links that lose contact count errors and replays (field report: screws)"),
            (HANG, 0.1, "assumption: a link that is down stops a collective"),
            (BARE, 0.5, "Xid 74 on the peers of a lost GPU (share: assumption)"),
            (UNKNOWN, 0.6, "assumption: cable, switch or firmware"),
        ),
    ),
    Row(
        sign=Sign.LINKS_OF_ONE,
        weight=_FINGERPRINT,
        otherwise=(0.01, _RARE),
        given=((LOOSE, 0.9, _BY_DEFINITION), (UNKNOWN, 0.05, _RARE)),
    ),
    Row(
        sign=Sign.NO_PROGRESS,
        weight=_FINGERPRINT,
        otherwise=(0.01, _RARE),
        given=(
            (HANG, 0.95, _BY_DEFINITION),
            (LOOSE, 0.2, "loose screws end in hangs (field report; share: assumption)"),
            (BARE, 0.3, "the ranks of a lost GPU's siblings wait for it"),
            (DRIVER, 0.1, _SOMETIMES),
            (UNKNOWN, 0.1, "assumption"),
        ),
    ),
    Row(
        sign=Sign.THREADS_SPIN,
        weight=_SYMPTOM,
        otherwise=(0.02, _RARE),
        given=(
            (HANG, 0.8, "nv_queue and irq threads near a full processor (field report)"),
            (LOOSE, 0.3, "the same report found screws behind it"),
            (UNKNOWN, 0.1, "assumption"),
        ),
    ),
    Row(
        sign=Sign.LAGS,
        weight=_SYMPTOM,
        otherwise=(0.01, _RARE),
        given=(
            (INTERFACE, 0.15, "assumption: heat takes its clocks"),
            (LOOSE, 0.1, "assumption: a link that retries is slow"),
            (UNKNOWN, 0.5, "assumption: work, data and host come first"),
        ),
    ),
    Row(
        sign=Sign.APPLICATION_ERROR,
        weight=_FINGERPRINT,
        otherwise=(0.03, "assumption: jobs that die leave such codes"),
        given=(
            (DRIVER, 0.8, "NVIDIA Xid catalogue: codes of applications and of the driver"),
            (BARE, 0.2, "assumption: jobs of a lost GPU die with such codes"),
            (HANG, 0.1, "assumption: a job that is killed"),
            (UNKNOWN, 0.08, "assumption"),
        ),
    ),
    Row(
        sign=Sign.DEVICE_ERROR,
        weight=_SYMPTOM,
        otherwise=(0.05, _RARE),
        given=(
            (DRIVER, 0.15, "assumption: firmware"),
            (LOOSE, 0.1, _SOMETIMES),
            (BARE, 0.3, "assumption: what the driver says on the way out"),
            (UNKNOWN, 0.6, "NVIDIA Xid catalogue: memory and other parts of the GPU, which have no class here"),
        ),
    ),
    Row(
        sign=Sign.DRIVER_CHANGED,
        weight=_TOLD,
        otherwise=(0.02, _RARE),
        given=((DRIVER, 0.6, "assumption: somebody works on it"), (UNKNOWN, 0.05, _RARE)),
    ),
    Row(
        sign=Sign.ONE_SILENT,
        weight=_SYMPTOM,
        otherwise=(0.02, _RARE),
        given=(
            (SENSOR, 0.5, "assumption"),
            (EXPORTER, 0.3, "assumption"),
            (UNKNOWN, 0.4, "assumption"),
        ),
    ),
    Row(
        sign=Sign.ALL_SILENT,
        weight=_FINGERPRINT,
        otherwise=(0.005, _RARE),
        given=(
            (EXPORTER, 0.95, "what they share is who reads them"),
            (DRIVER, 0.3, "a driver that is unloaded takes all with it"),
            (UNKNOWN, 0.05, _RARE),
        ),
    ),
    Row(
        sign=Sign.COLLECTOR_FAILED,
        weight=_TOLD,
        otherwise=(0.01, _RARE),
        given=(
            (EXPORTER, 0.7, "the collector's own word (share: assumption)"),
            (DRIVER, 0.2, "assumption: a driver that hangs takes the collector with it"),
            (UNKNOWN, 0.03, _RARE),
        ),
    ),
    Row(
        sign=Sign.DISAGREES,
        weight=_FINGERPRINT,
        otherwise=(0.005, _RARE),
        given=((SENSOR, 0.95, _BY_DEFINITION), (UNKNOWN, 0.02, _RARE)),
    ),
    Row(
        sign=Sign.ODD,
        weight=_SYMPTOM,
        otherwise=(0.1, "assumption: every fault is unlike before, in time"),
        given=((UNKNOWN, 0.9, "what the words mean"),),
    ),
)
