import pytest
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse
from pydantic import ValidationError

from config.models import Page
from dashboards.page.access import COOKIE, Gate
from tests.dashboards.page.asgi import Client

TOKEN = "correct-horse"


def client(token: str | None, base_url: str = "http://127.0.0.1:8080") -> Client:
    app = FastAPI()

    @app.get("/api/v1/status")
    def status(token: str | None = None) -> PlainTextResponse:
        return PlainTextResponse("read")

    app.add_middleware(Gate, token=token)
    return Client(app, base_url=base_url)


@pytest.mark.parametrize(
    "base_url", ["http://127.0.0.1:8080", "http://localhost", "http://[::1]:9", "http://LOCALHOST:1"]
)
def test_loopback_needs_no_token(base_url: str) -> None:
    assert client(None, base_url).get("/api/v1/status").text == "read"


def test_a_name_rebound_to_loopback_is_refused() -> None:
    assert client(None, "http://evil.example:8080").get("/api/v1/status").status_code == 403
    assert client(None, "http://127.0.0.1.evil.example").get("/api/v1/status").status_code == 403


def test_with_a_token_nothing_is_read_without_it() -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}, {"Cookie": f"{COOKIE}={TOKEN}"}):
        reply = client(TOKEN).get("/api/v1/status", headers=headers)
        assert reply.status_code == 401
        assert "read" not in reply.text


def test_a_bearer_token_opens() -> None:
    assert client(TOKEN).get("/api/v1/status", headers={"Authorization": f"bearer {TOKEN}"}).text == "read"


def test_a_browser_swaps_the_token_in_the_address_for_a_cookie() -> None:
    browser = client(TOKEN)
    reply = browser.get(f"/api/v1/status?seconds=5&token={TOKEN}")
    assert reply.status_code == 303
    assert reply.headers["location"] == "/api/v1/status?seconds=5"
    cookie = reply.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert browser.get("/api/v1/status").text == "read"


def test_the_redirect_cannot_leave_the_page() -> None:
    reply = client(TOKEN).get(f"http://127.0.0.1:8080//evil.example/x?token={TOKEN}")
    assert reply.headers["location"] == "/evil.example/x"


def test_a_token_that_is_not_ascii_or_a_broken_cookie_is_refused_not_a_crash() -> None:
    assert client(TOKEN).get("/api/v1/status?token=%C3%A9%FF").status_code == 401
    assert client(TOKEN).get("/api/v1/status", headers={"Cookie": 'a="\\x; ;;=,'}).status_code == 401
    assert (
        client(TOKEN).get("/api/v1/status", headers={"Authorization": "Bearer \xe9".encode("latin-1")}).status_code
        == 401
    )


@pytest.mark.parametrize("token", [None, TOKEN])
def test_every_answer_carries_the_security_headers(token: str | None) -> None:
    headers = client(token).get("/api/v1/status").headers
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"


def test_the_network_is_served_only_with_a_token() -> None:
    for host in ("127.0.0.1", "::1"):
        assert Page(host=host).token is None
    assert Page(host="0.0.0.0", token=TOKEN.ljust(16, "x")).token  # noqa: S104 -- with a token
    for host in ("0.0.0.0", "::", "10.0.0.5", "box-17"):  # noqa: S104 -- refused
        with pytest.raises(ValidationError, match="token"):
            Page(host=host)
