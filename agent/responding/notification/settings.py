"""What telling people needs to know; light to load, since every command reads the configuration."""

from dataclasses import dataclass

from agent.responding.notification.route import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSettings:
    """The routes, and the bounds of what waits.

    Parameters
    ----------
    group_s
        A route that people read gets one message in such a time at most.
    keep_s
        How long a message is tried.
    queue_max
        How many messages may wait.
    """

    routes: tuple[Route, ...] = ()
    group_s: float = 60.0
    keep_s: float = 86_400.0
    queue_max: int = 1000
    page_url: str = ""
