"""Port of a route: a channel that delivers messages."""

from collections.abc import Sequence
from typing import Protocol

from agent.responding.notification.notice import Notice


class MessageChannel(Protocol):
    """Channel that delivers messages.

    `groups` is True if people read each message, so that several notices share one. `renew_every_s` is the interval at
    which open incidents have to be sent again; None if once is enough.
    """

    groups: bool
    renew_every_s: float | None

    def deliver(self, notices: Sequence[Notice]) -> None:
        """Deliver all notices; they are delivered when this returns.

        Raises
        ------
        TransientError
            A retry may succeed.
        ActionRefusedError
            A retry will not succeed: the receiver refuses them.
        """
        ...
