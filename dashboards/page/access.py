"""Access to the page: who may read, who may act, and the headers that browsers receive.

Reading needs no token on loopback and the token from elsewhere; acting needs the token to act, from everywhere.
"""

import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "railwatch_page"
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})
_SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Gate:
    """ASGI middleware: lets a request through or answers 401, 403; adds the security headers either way.

    With a token every request must carry it: as ``Authorization: Bearer``, or once as ``?token=`` in the browser,
    which is answered by a cookie and a redirect to the same address without it. Without a token only requests that
    name this machine as loopback pass, so that a web page elsewhere cannot read through a rebound name. What is no
    reading needs the other token, always as ``Authorization: Bearer``: a browser adds a cookie by itself, and that not.
    """

    def __init__(self, app: ASGIApp, *, token: str | None, act_token: str | None = None) -> None:
        self._app = app
        self._token = token
        self._act_token = act_token
        self._cookie = "" if token is None else _cookie_value(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _SECURITY_HEADERS.items():
                    headers[name] = value
                # What is served from disk is asked for again by its ETag; samples and records are never cached.
                headers.setdefault("Cache-Control", "no-store" if scope["path"].startswith("/api/") else "no-cache")
            await send(message)

        if scope["method"] not in ("GET", "HEAD"):
            app = self._app if self._may_act(scope) else _NO_ACT
        else:
            app = self._app if self._may_pass(scope) else self._answer(scope)
        await app(scope, receive, send_with_headers)

    def _may_pass(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        if self._token is None:
            return _host_name(headers.get("host", "")) in _LOOPBACK_NAMES
        if any(_same(_bearer(headers), token) for token in (self._token, self._act_token) if token is not None):
            return True
        return _same(_cookie_of(headers), self._cookie)

    def _may_act(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        if self._token is None and _host_name(headers.get("host", "")) not in _LOOPBACK_NAMES:
            return False
        return self._act_token is not None and _same(_bearer(headers), self._act_token)

    def _answer(self, scope: Scope) -> ASGIApp:
        if self._token is None:
            return PlainTextResponse("this page answers on loopback only\n", status_code=403)
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get("token")
        if given is None or scope["method"] != "GET" or not _same(given, self._token):
            return PlainTextResponse(
                "a token is needed: Authorization: Bearer TOKEN, or ?token=TOKEN in a browser\n",
                status_code=401,
                headers={"WWW-Authenticate": "Bearer", "Cache-Control": "no-store"},
            )
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        reply = RedirectResponse(_own_path(scope) + (f"?{rest}" if rest else ""), status_code=303)
        reply.headers["Cache-Control"] = "no-store"
        reply.set_cookie(COOKIE, self._cookie, httponly=True, samesite="strict", secure=scope["scheme"] == "https")
        return reply


_NO_ACT = PlainTextResponse(
    "to act takes the token of page.act_token: Authorization: Bearer TOKEN\n",
    status_code=403,
    headers={"Cache-Control": "no-store"},
)


def _bearer(headers: Headers) -> str:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def _own_path(scope: Scope) -> str:
    # A path that starts with two slashes would be read as another host.
    path: str = scope["path"]
    return "/" + path.lstrip("/")


def _cookie_value(token: str) -> str:
    return hmac.new(token.encode(), b"railwatch page cookie", hashlib.sha256).hexdigest()


def _cookie_of(headers: Headers) -> str:
    try:
        morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if morsel is None else morsel.value


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def _host_name(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()
