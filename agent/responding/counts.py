"""What the responder counts of itself."""

from dataclasses import dataclass

from telemetry.records import ActionState


@dataclass(slots=True)
class ActuatorCounts:
    """Counts of one actuator; its thread raises them and any may read them.

    Attributes
    ----------
    done, refused, failed
        Work that ended so.
    unknown
        Work of which nobody knows whether it was carried out, since a process ended in the middle of it.
    retried
        Tries that failed and are made again.
    engaged, released, given_up
        Switches that were moved, and that were left to somebody else who had moved them.
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
        """Count what was told."""
        match state:
            case ActionState.DONE:
                self.done += 1
            case ActionState.REFUSED:
                self.refused += 1
            case ActionState.FAILED:
                self.failed += 1
            case _:
                pass
