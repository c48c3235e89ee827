"""Settings of notification; a light module, since every command reads the configuration."""

from dataclasses import dataclass

from agent.responding.notification.route import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSettings:
    """Routes, and limits of the queue.

    Parameters
    ----------
    group_s
        Shortest interval of messages on a route that people read.
    keep_s
        Time limit of retries.
    queue_max
        Most messages that wait.
    """

    routes: tuple[Route, ...] = ()
    group_s: float = 60.0
    keep_s: float = 86_400.0
    queue_max: int = 1000
    page_url: str = ""
