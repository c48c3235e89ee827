"""The rows of the table that the supply path shows: sags, brakes, resistance, and events of the supplies."""

from analytics.classification.classes import BARE, INPUT, JOINT, LOST, OVERLOAD, SENSOR, SYNCHRONOUS, UNKNOWN
from analytics.classification.sign import BY_DEFINITION, FINGERPRINT, RARE, REPORTED, SOMETIMES, SYMPTOM, Sign, SignRow

SUPPLY_ROWS: tuple[SignRow, ...] = (
    SignRow(
        sign=Sign.SAG,
        weight=SYMPTOM,
        otherwise=(0.01, RARE),
        given=(
            (JOINT, 0.6, "assumption: only once it is far gone; before that only the resistance shows it"),
            (LOST, 0.7, "assumption: at a load that needs all supplies"),
            (OVERLOAD, 0.9, "assumption: this is how it shows"),
            (SYNCHRONOUS, 0.9, "assumption: this is how it shows"),
            (INPUT, 0.8, "assumption: unless the supplies hold their output"),
            (SENSOR, 0.2, "assumption: one of several ways in which a voltage can lie"),
            (UNKNOWN, 0.5, "assumption: nothing speaks for one of the above"),
        ),
    ),
    SignRow(
        sign=Sign.BUS_HOLDS,
        weight=FINGERPRINT,
        otherwise=(0.01, RARE),
        given=(
            (JOINT, 0.3, "assumption: a joint behind the converter"),
            (OVERLOAD, 0.5, "assumption: the converter carries more than it is rated for"),
            (SYNCHRONOUS, 0.3, "assumption: as for an overload, in steps"),
            (SENSOR, 0.2, "assumption: one of several ways in which a voltage can lie"),
            (UNKNOWN, 0.5, "assumption: the converter itself, which is no class of its own"),
        ),
    ),
    SignRow(
        sign=Sign.BRAKE,
        weight=SYMPTOM,
        otherwise=(0.02, RARE),
        given=(
            (JOINT, 0.3, "assumption: pulled at 10.9 V, below where GPUs fall off in the field report"),
            (LOST, 0.5, "server boards pull the brake when redundancy is lost (vendor manuals; share: assumption)"),
            (OVERLOAD, 0.5, "the same line answers over-current (share: assumption)"),
            (SYNCHRONOUS, 0.3, "assumption: dips are short"),
            (INPUT, 0.4, "assumption: as for a lost supply, less often"),
            (UNKNOWN, 0.4, "assumption: nothing speaks for one of the above"),
        ),
    ),
    SignRow(
        sign=Sign.BRAKE_ALONE,
        weight=FINGERPRINT,
        otherwise=(0.01, RARE),
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
    SignRow(
        sign=Sign.BRAKE_WITHOUT_DIP,
        weight=FINGERPRINT,
        otherwise=(0.01, RARE),
        given=(
            (OVERLOAD, 0.5, "as for a brake alone"),
            (JOINT, 0.1, "assumption: a path behind the meters of the supplies, where no rail shows the dip"),
            (SYNCHRONOUS, 0.05, "as for a brake alone"),
            (LOST, 0.1, "assumption: siblings that hold the rail; the currents of the branches were not judged"),
            (INPUT, 0.05, "as for a brake alone"),
            (UNKNOWN, 0.1, "as for a brake alone"),
        ),
    ),
    SignRow(
        sign=Sign.SLOWDOWN,
        weight=SYMPTOM,
        otherwise=(0.02, RARE),
        given=(
            (JOINT, 0.2, SOMETIMES),
            (LOST, 0.3, SOMETIMES),
            (OVERLOAD, 0.3, SOMETIMES),
            (SYNCHRONOUS, 0.2, SOMETIMES),
            (INPUT, 0.2, SOMETIMES),
            (UNKNOWN, 0.4, "assumption: nothing speaks for one of the above"),
        ),
    ),
    SignRow(
        sign=Sign.RESISTANCE_UP,
        weight=FINGERPRINT,
        otherwise=(0.01, "assumption: one false alarm of a CUSUM in a year or less, see docs on source resistance"),
        given=(
            (JOINT, 0.95, BY_DEFINITION),
            (LOST, 0.3, "N / (N - 1) on N supplies in parallel; mostly reported as a lost supply"),
            (UNKNOWN, 0.03, RARE),
        ),
    ),
    SignRow(
        sign=Sign.SUPPLY_OUT,
        weight=FINGERPRINT,
        otherwise=(0.005, RARE),
        given=(
            (LOST, 0.9, BY_DEFINITION),
            (JOINT, 0.03, "assumption: a joint that fails at once looks like a supply that does"),
            (INPUT, 0.03, "assumption: one supply of several on another feed"),
            (UNKNOWN, 0.02, RARE),
        ),
    ),
    SignRow(
        sign=Sign.LOAD_BEYOND_PATH,
        weight=FINGERPRINT,
        otherwise=(0.01, RARE),
        given=(
            (OVERLOAD, 0.9, BY_DEFINITION),
            (SYNCHRONOUS, 0.2, "assumption: a step is a load as well"),
            (LOST, 0.15, "assumption: what is left carries the load of all"),
            (UNKNOWN, 0.03, RARE),
        ),
    ),
    SignRow(
        sign=Sign.DIPS_WITH_STEPS,
        weight=FINGERPRINT,
        otherwise=(0.01, RARE),
        given=(
            (SYNCHRONOUS, 0.9, BY_DEFINITION),
            (OVERLOAD, 0.25, "assumption: an overloaded path dips deepest at a step"),
            (JOINT, 0.1, "assumption: as for an overloaded path, until the resistance shows it"),
            (UNKNOWN, 0.03, RARE),
        ),
    ),
    SignRow(
        sign=Sign.VOLTAGE_DOWN,
        weight=FINGERPRINT,
        otherwise=(0.005, RARE),
        given=(
            (INPUT, 0.95, BY_DEFINITION),
            (LOST, 0.1, "assumption: set points differ, so the bus moves when one of them goes"),
            (UNKNOWN, 0.02, RARE),
        ),
    ),
    SignRow(
        sign=Sign.SUPPLIES_TOGETHER,
        weight=SYMPTOM,
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
    SignRow(
        sign=Sign.SUPPLY_EVENT,
        weight=REPORTED,
        otherwise=(0.01, RARE),
        given=(
            (LOST, 0.5, "IPMI 2.0 table 42-3, power supply: failure (share that is logged: assumption)"),
            (OVERLOAD, 0.15, "over-current warning on PMBus supplies (share: assumption)"),
            (INPUT, 0.1, SOMETIMES),
            (UNKNOWN, 0.05, RARE),
        ),
    ),
    SignRow(
        sign=Sign.INPUT_EVENT,
        weight=REPORTED,
        otherwise=(0.005, RARE),
        given=(
            (
                INPUT,
                0.5,
                "IPMI 2.0 table 42-3, power supply: input lost or out of range; a UPS on battery (share: assumption)",
            ),
            (LOST, 0.1, "assumption: a pulled plug is reported as input lost too"),
            (UNKNOWN, 0.01, RARE),
        ),
    ),
    SignRow(
        sign=Sign.ELECTRICAL,
        weight=FINGERPRINT,
        otherwise=(0.03, RARE),
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
)
