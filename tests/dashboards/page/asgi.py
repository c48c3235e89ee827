"""Asks an ASGI application without a socket; keeps cookies as a browser does."""

import asyncio
from collections.abc import Mapping

import httpx
from fastapi import FastAPI


class Client:
    def __init__(self, app: FastAPI, *, base_url: str) -> None:
        self._transport = httpx.ASGITransport(app=app)
        self._base_url = base_url
        self._cookies = httpx.Cookies()

    def get(
        self,
        path: str,
        *,
        params: Mapping[str, str | float] | None = None,
        headers: Mapping[str, str | bytes] | None = None,
    ) -> httpx.Response:
        return asyncio.run(self._get(path, params, headers))

    def post(self, path: str, body: object, *, headers: Mapping[str, str] | None = None) -> httpx.Response:
        async def asked() -> httpx.Response:
            async with httpx.AsyncClient(
                transport=self._transport, base_url=self._base_url, cookies=self._cookies
            ) as client:
                return await client.post(path, json=body, headers=dict(headers or {}))

        return asyncio.run(asked())

    async def _get(
        self, path: str, params: Mapping[str, str | float] | None, headers: Mapping[str, str | bytes] | None
    ) -> httpx.Response:
        given = {
            name.encode(): value if isinstance(value, bytes) else value.encode()
            for name, value in (headers or {}).items()
        }
        async with httpx.AsyncClient(
            transport=self._transport, base_url=self._base_url, cookies=self._cookies
        ) as client:
            reply = await client.get(path, params=params, headers=given)
            self._cookies = client.cookies
            return reply
