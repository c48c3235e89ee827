"""JSON to an HTTP server, and what its answer means."""

import json
import ssl
from collections.abc import Mapping
from typing import Any

import urllib3

from agent.responding.notification.route import Route
from telemetry.errors import ActionRefusedError, NotPermittedError, TransientError

# Heuristic: chat services answer within a second; longer than this a message waits for its next turn.
_TIMEOUT = urllib3.Timeout(connect=3.0, read=7.0)
# The body itself is wrong, and will be at the next try: RFC 9110 sections 15.5.1, 15.5.14, 15.5.16, 15.5.21.
_BODY_REFUSED = (400, 413, 415, 422)


class Poster:
    """Posts JSON to one server; neither address nor token is ever told in an error."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._pool: urllib3.PoolManager | None = None

    def post(self, body: Any, *, path: str = "", headers: Mapping[str, str] | None = None) -> None:
        """Send one body to the route's address, with a path behind it.

        Raises
        ------
        TransientError
            No answer, or one that may change: too much at once, a fault of the server, a token it does not know.
        ActionRefusedError
            The server does not take such a body.
        """
        route = self._route
        try:
            url = route.addresses()[0] + path
            token = route.token.read()
        except NotPermittedError as err:
            raise TransientError(f"route {route.name}: {err}") from err
        if not url.startswith(("http://", "https://")):
            raise TransientError(f"route {route.name}: its address is none of the web")
        sent = {"Content-Type": "application/json", "User-Agent": "railwatch", **(headers or {})}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        try:
            answer = self._connection().request(
                "POST",
                url,
                body=json.dumps(body).encode(),
                headers=sent,
                timeout=_TIMEOUT,
                retries=False,
                preload_content=False,  # what it says beside its status may be of any length and is not read
            )
            answer.close()
        except (urllib3.exceptions.HTTPError, ValueError):
            # Its words hold the address: they are left out, and with them what this error came from.
            raise TransientError(f"route {route.name}: nobody takes it there") from None
        if 200 <= answer.status < 300:
            return
        words = f"route {route.name}: the server answers with HTTP {answer.status}"
        if answer.status in _BODY_REFUSED:
            raise ActionRefusedError(words)
        raise TransientError(words)

    def _connection(self) -> urllib3.PoolManager:
        if self._pool is None:
            file, context = self._route.ca_file, None
            if file is not None:
                context = ssl.create_default_context()
                try:
                    context.load_verify_locations(file)
                except OSError as err:  # SSLError is one
                    raise TransientError(f"route {self._route.name}: {file} holds no certificates to read") from err
            self._pool = urllib3.PoolManager(num_pools=1, maxsize=1, ssl_context=context)
        return self._pool
