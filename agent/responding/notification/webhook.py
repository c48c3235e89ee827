"""Messages as JSON to a web server of the operator."""

import hashlib
from collections.abc import Sequence

from agent.responding.notification.message_text import message_of
from agent.responding.notification.notice import Notice
from agent.responding.notification.posting import Poster
from agent.responding.notification.route import Route


class Webhook:
    """Posts ``{"type": "notification", "title", "text", "notices": [...]}``.

    The header ``Idempotency-Key`` is the same if a message is sent twice, as after a kill between the reply of the
    server and the note of it.
    """

    groups = True
    renew_every_s: float | None = None

    def __init__(self, route: Route) -> None:
        self._poster = Poster(route)

    def deliver(self, notices: Sequence[Notice]) -> None:
        """Post all notices in one request."""
        title, text = message_of(notices)
        body = {
            "type": "notification",
            "title": title,
            "text": text,
            "notices": [notice.fields() for notice in notices],
        }
        key = hashlib.blake2b("\n".join(notice.token for notice in notices).encode(), digest_size=16).hexdigest()
        self._poster.post(body, headers={"Idempotency-Key": key})
