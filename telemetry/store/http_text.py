"""The answer of a store's HTTP interface as text, or why there is none."""

from collections.abc import Callable

import urllib3

from telemetry.errors import NotPermittedError, TransientError


def text_of(url: str, ask: Callable[[], urllib3.BaseHTTPResponse]) -> str:
    """Ask, and give the body of an answer with status 200.

    Raises
    ------
    NotPermittedError
        The account is unknown or may not do this.
    TransientError
        The server cannot be reached, is in trouble, or refuses the question.
    """
    try:
        answer = ask()
    except urllib3.exceptions.HTTPError as err:
        raise TransientError(f"{url}: not reached: {err}") from err
    text = answer.data.decode(errors="replace")
    if answer.status in (401, 403):
        raise NotPermittedError(f"{url}: HTTP {answer.status}: {text.strip()[:300]}")
    if answer.status != 200:
        raise TransientError(f"{url}: HTTP {answer.status}: {text.strip()[:300]}")
    return text
