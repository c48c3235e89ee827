"""Counts of the responder's own work."""

from dataclasses import dataclass

from telemetry.records import ActionState


@dataclass(slots=True)
class ActuatorCounts:
    """Counts of one actuator; its thread raises them, any thread may read them.

    Attributes
    ----------
    done, refused, failed
        Work that ended in this state.
    unknown
        Work whose result is unknown because a process ended in the middle of it.
    retried
        Failed attempts that are retried.
    engaged, released, given_up
        Switches that were engaged, released, or left alone because someone else had changed them.
    """

    done: int = 0
    refused: int = 0
    failed: int = 0
    unknown: int = 0
    retried: int = 0
    engaged: int = 0
    released: int = 0
    given_up: int = 0

    def count(self, state: ActionState) -> None:
        """Count a reported state."""
        match state:
            case ActionState.DONE:
                self.done += 1
            case ActionState.REFUSED:
                self.refused += 1
            case ActionState.FAILED:
                self.failed += 1
            case _:
                pass
