"""HTTP POST of JSON, with errors by status."""

import json
import ssl
from collections.abc import Mapping
from typing import Any

import urllib3

from agent.responding.notification.route import Route
from telemetry.errors import ActionRefusedError, NotPermittedError, TransientError

# heuristic: chat services answer within a second; after this the message is retried.
_TIMEOUT = urllib3.Timeout(connect=3.0, read=7.0)
# The body itself is wrong, a retry would not help: RFC 9110 sections 15.5.1, 15.5.14, 15.5.16, 15.5.21.
_BODY_REFUSED = (400, 413, 415, 422)


class Poster:
    """Posts JSON to one server; errors never contain address or token."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._pool: urllib3.PoolManager | None = None

    def post(self, body: Any, *, path: str = "", headers: Mapping[str, str] | None = None) -> None:
        """Send one body to the route's address, with `path` appended.

        Raises
        ------
        TransientError
            No reply, or a status that may change: too many requests, a server error, an unknown token.
        ActionRefusedError
            The server refuses the body.
        """
        route = self._route
        try:
            url = route.addresses()[0] + path
            token = route.token.read()
        except NotPermittedError as err:
            raise TransientError(f"route {route.name}: {err}") from err
        if not url.startswith(("http://", "https://")):
            raise TransientError(f"route {route.name}: expected an address that begins with http:// or https://")
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
                preload_content=False,  # the body may be of any length and is not read
            )
            answer.close()
        except (urllib3.exceptions.HTTPError, ValueError):
            # The message contains the address: it is left out, and so is the cause.
            raise TransientError(f"route {route.name}: no reply") from None
        if 200 <= answer.status < 300:
            return
        reason = f"route {route.name}: HTTP status {answer.status}"
        if answer.status in _BODY_REFUSED:
            raise ActionRefusedError(reason)
        raise TransientError(reason)

    def _connection(self) -> urllib3.PoolManager:
        if self._pool is None:
            file, context = self._route.ca_file, None
            if file is not None:
                context = ssl.create_default_context()
                try:
                    context.load_verify_locations(file)
                except OSError as err:  # SSLError is one
                    raise TransientError(f"route {self._route.name}: {file} contains no valid certificates") from err
            self._pool = urllib3.PoolManager(num_pools=1, maxsize=1, ssl_context=context)
        return self._pool
