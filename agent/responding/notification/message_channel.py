"""The port of a route: what carries messages to people."""

from collections.abc import Sequence
from typing import Protocol

from agent.responding.notification.notice import Notice


class MessageChannel(Protocol):
    """Carries messages.

    `groups` says that a person reads each message, so that many are worth one. `renew_every_s` is how often what is
    open has to be said again for it to stand; None where once is enough.
    """

    groups: bool
    renew_every_s: float | None

    def deliver(self, notices: Sequence[Notice]) -> None:
        """Report all of them; they are delivered when this returns.

        Raises
        ------
        TransientError
            They may arrive another time.
        ActionRefusedError
            They never will: what is there does not take them.
        """
        ...
