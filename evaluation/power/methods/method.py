"""What a method is: it learns from the first part of a chain, and then answers about rows of a trace."""

from collections.abc import Callable
from dataclasses import dataclass

from evaluation.power.answers import Answers
from evaluation.power.chains import Chain
from evaluation.power.plan import Track
from evaluation.power.recordings import Trace

# Answers about some rows of a trace; none of them depends on a later row.
Fitted = Callable[[Trace, slice], list[Answers]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """Method with one score, whose threshold the protocol sets; one that needs volts does not judge watts alone."""

    name: str
    fit: Callable[[Chain], Fitted]
    needs_volts: bool = False

    def judges(self, track: Track) -> bool:
        """Return whether it can judge a track."""
        return not (self.needs_volts and track is Track.NODES)
