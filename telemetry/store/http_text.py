"""Text of an HTTP response of a store, or the error."""

from collections.abc import Callable

import urllib3

from telemetry.errors import NotPermittedError, TransientError


def text_of(url: str, send: Callable[[], urllib3.BaseHTTPResponse]) -> str:
    """Send a request and return the body of a response with status 200.

    Raises
    ------
    NotPermittedError
        The account is unknown or may not do this.
    TransientError
        The server cannot be reached, fails, or refuses the request.
    """
    try:
        response = send()
    except urllib3.exceptions.HTTPError as err:
        raise TransientError(f"{url}: not reached: {err}") from err
    text = response.data.decode(errors="replace")
    if response.status in (401, 403):
        raise NotPermittedError(f"{url}: HTTP {response.status}: {text.strip()[:300]}")
    if response.status != 200:
        raise TransientError(f"{url}: HTTP {response.status}: {text.strip()[:300]}")
    return text
