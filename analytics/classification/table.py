"""The table of fingerprints: how likely each sign is under each class of root cause.

Every number has its source. "assumption" is the project's own estimate from how the thing works; the evaluation
measures what the whole table is worth, and one temperature puts its confidence right. A class that a row does not name
has the row's `otherwise`. `classes` has the priors and the contradictions.
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
from analytics.classification.sign import BY_DEFINITION, FINGERPRINT, RARE, REPORTED, SOMETIMES, SYMPTOM, Sign, SignRow
from analytics.classification.supply_rows import SUPPLY_ROWS

ROWS: tuple[SignRow, ...] = (
    *SUPPLY_ROWS,
    SignRow(
        sign=Sign.ONE_HOT,
        weight=FINGERPRINT,
        otherwise=(0.01, RARE),
        given=(
            (INTERFACE, 0.95, BY_DEFINITION),
            (AIR, 0.08, "assumption: a blocked duct of one slot"),
            (LOOSE, 0.05, "assumption: the screws hold the cooler too"),
            (SENSOR, 0.03, RARE),
            (UNKNOWN, 0.03, RARE),
        ),
    ),
    SignRow(
        sign=Sign.HEAT_GROWS_WITH_POWER,
        weight=FINGERPRINT,
        otherwise=(0.5, "no evidence"),
        given=(
            (INTERFACE, 0.95, "excess = power x extra resistance"),
            (AIR, 0.3, "warm air adds the same at any power; too little air does not"),
            (SENSOR, 0.1, "an offset is the same at any power"),
        ),
    ),
    SignRow(
        sign=Sign.WARM_AIR,
        weight=FINGERPRINT,
        otherwise=(0.01, RARE),
        given=(
            (AIR, 0.95, BY_DEFINITION),
            (INTERFACE, 0.08, "assumption: a GPU alone in its node cannot be compared"),
            (UNKNOWN, 0.05, "assumption"),
        ),
    ),
    SignRow(
        sign=Sign.SEVERAL_HOT,
        weight=SYMPTOM,
        otherwise=(0.02, RARE),
        given=(
            (AIR, 0.9, "what they share is the air"),
            (INTERFACE, 0.08, "assumption: several coolers mounted badly on one day"),
            (UNKNOWN, 0.6, "assumption: a heavy load in a warm room"),
        ),
    ),
    SignRow(
        sign=Sign.THIN_MARGIN,
        weight=SYMPTOM,
        otherwise=(0.02, RARE),
        given=(
            (INTERFACE, 0.6, "assumption: only at high load"),
            (AIR, 0.7, "assumption: only at high load"),
            (UNKNOWN, 0.8, "assumption: a heavy load in a warm room does it without any fault"),
        ),
    ),
    SignRow(
        sign=Sign.FAN_EVENT,
        weight=REPORTED,
        otherwise=(0.01, RARE),
        given=((AIR, 0.5, "IPMI 2.0 table 42-3, fan (share that is logged: assumption)"), (UNKNOWN, 0.02, RARE)),
    ),
    SignRow(
        sign=Sign.LOST,
        weight=FINGERPRINT,
        otherwise=(0.02, RARE),
        given=(
            (BARE, 0.95, "what the words mean"),
            (JOINT, 0.15, "assumption: late, and only where no one acts"),
            (LOST, 0.1, SOMETIMES),
            (OVERLOAD, 0.15, SOMETIMES),
            (SYNCHRONOUS, 0.15, SOMETIMES),
            (INPUT, 0.1, SOMETIMES),
            (LOOSE, 0.2, "assumption: a module that comes off"),
            (DRIVER, 0.1, "assumption: a GPU that its firmware leaves"),
            (UNKNOWN, 0.3, "assumption"),
        ),
    ),
    SignRow(
        sign=Sign.SEVERAL_LOST,
        weight=SYMPTOM,
        otherwise=(0.02, RARE),
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
    SignRow(
        sign=Sign.OFF_BUS,
        weight=SYMPTOM,
        otherwise=(0.02, RARE),
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
    SignRow(
        sign=Sign.LINK_ERRORS,
        weight=FINGERPRINT,
        otherwise=(0.02, RARE),
        given=(
            (LOOSE, 0.8, "links that lose contact count errors and replays (field report: screws)"),
            (HANG, 0.1, "assumption: a link that is down stops a collective"),
            (BARE, 0.5, "Xid 74 on the peers of a lost GPU (share: assumption)"),
            (UNKNOWN, 0.6, "assumption: cable, switch or firmware"),
        ),
    ),
    SignRow(
        sign=Sign.LINKS_OF_ONE,
        weight=FINGERPRINT,
        otherwise=(0.01, RARE),
        given=((LOOSE, 0.9, BY_DEFINITION), (UNKNOWN, 0.05, RARE)),
    ),
    SignRow(
        sign=Sign.NO_PROGRESS,
        weight=FINGERPRINT,
        otherwise=(0.01, RARE),
        given=(
            (HANG, 0.95, BY_DEFINITION),
            (LOOSE, 0.2, "loose screws end in hangs (field report; share: assumption)"),
            (BARE, 0.3, "the ranks of a lost GPU's siblings wait for it"),
            (DRIVER, 0.1, SOMETIMES),
            (UNKNOWN, 0.1, "assumption"),
        ),
    ),
    SignRow(
        sign=Sign.THREADS_SPIN,
        weight=SYMPTOM,
        otherwise=(0.02, RARE),
        given=(
            (HANG, 0.8, "nv_queue and irq threads near a full processor (field report)"),
            (LOOSE, 0.3, "the same report found screws behind it"),
            (UNKNOWN, 0.1, "assumption"),
        ),
    ),
    SignRow(
        sign=Sign.LAGS,
        weight=SYMPTOM,
        otherwise=(0.01, RARE),
        given=(
            (INTERFACE, 0.15, "assumption: heat takes its clocks"),
            (LOOSE, 0.1, "assumption: a link that retries is slow"),
            (UNKNOWN, 0.5, "assumption: work, data and host come first"),
        ),
    ),
    SignRow(
        sign=Sign.APPLICATION_ERROR,
        weight=FINGERPRINT,
        otherwise=(0.03, "assumption: jobs that die leave such codes"),
        given=(
            (DRIVER, 0.8, "NVIDIA Xid catalogue: codes of applications and of the driver"),
            (BARE, 0.2, "assumption: jobs of a lost GPU die with such codes"),
            (HANG, 0.1, "assumption: a job that is killed"),
            (UNKNOWN, 0.08, "assumption"),
        ),
    ),
    SignRow(
        sign=Sign.DEVICE_ERROR,
        weight=SYMPTOM,
        otherwise=(0.05, RARE),
        given=(
            (DRIVER, 0.15, "assumption: firmware"),
            (LOOSE, 0.1, SOMETIMES),
            (BARE, 0.3, "assumption: messages of the driver as it unloads"),
            (UNKNOWN, 0.6, "NVIDIA Xid catalogue: memory and other parts of the GPU, which have no class here"),
        ),
    ),
    SignRow(
        sign=Sign.DRIVER_CHANGED,
        weight=REPORTED,
        otherwise=(0.02, RARE),
        given=((DRIVER, 0.6, "assumption: an operator works on it"), (UNKNOWN, 0.05, RARE)),
    ),
    SignRow(
        sign=Sign.ONE_SILENT,
        weight=SYMPTOM,
        otherwise=(0.02, RARE),
        given=(
            (SENSOR, 0.5, "assumption"),
            (EXPORTER, 0.3, "assumption"),
            (UNKNOWN, 0.4, "assumption"),
        ),
    ),
    SignRow(
        sign=Sign.ALL_SILENT,
        weight=FINGERPRINT,
        otherwise=(0.005, RARE),
        given=(
            (EXPORTER, 0.95, "what they share is who reads them"),
            (DRIVER, 0.3, "a driver that is unloaded takes all with it"),
            (UNKNOWN, 0.05, RARE),
        ),
    ),
    SignRow(
        sign=Sign.COLLECTOR_FAILED,
        weight=REPORTED,
        otherwise=(0.01, RARE),
        given=(
            (EXPORTER, 0.7, "the collector's own report (share: assumption)"),
            (DRIVER, 0.2, "assumption: a driver that hangs takes the collector with it"),
            (UNKNOWN, 0.03, RARE),
        ),
    ),
    SignRow(
        sign=Sign.DISAGREES,
        weight=FINGERPRINT,
        otherwise=(0.005, RARE),
        given=((SENSOR, 0.95, BY_DEFINITION), (UNKNOWN, 0.02, RARE)),
    ),
    SignRow(
        sign=Sign.ODD,
        weight=SYMPTOM,
        otherwise=(0.1, "assumption: every fault is unlike before, in time"),
        given=((UNKNOWN, 0.9, "what the words mean"),),
    ),
)
