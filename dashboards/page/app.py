"""The page as an ASGI application."""

import asyncio
from importlib.util import find_spec
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles

from dashboards.page.access import Gate
from dashboards.page.answers import answer_router
from dashboards.page.api import api_router
from dashboards.page.history import history_router
from dashboards.page.source import ApprovalPort, PageSource
from telemetry.clock import Clock
from telemetry.errors import RailwatchError

STATIC_DIR = Path(__file__).parent / "static"
MOST_WATCHERS = 32


def echarts_dir() -> Path | None:
    """Find the ECharts build inside the installed NiceGUI wheel without importing it; None where it is missing."""
    spec = find_spec("nicegui")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "elements" / "echart" / "dist"
    return folder if (folder / "index.js").is_file() else None


def create_app(
    source: PageSource,
    *,
    clock: Clock,
    token: str | None = None,
    act_token: str | None = None,
    answers: ApprovalPort | None = None,
    version: str = "0",
    echarts: Path | None = None,
) -> FastAPI:
    """Build the page over one node.

    Parameters
    ----------
    token
        What a request must carry; None serves requests that name this machine as loopback, and no others.
    act_token
        What a request that acts must carry; None refuses every action.
    answers
        Where answers to decisions that wait go; None takes none.
    version
        Of railwatch, for the API description.
    echarts
        Folder of the ECharts build, usually `echarts_dir()`; None leaves the charts out, with a notice on the page.

    Set ``app.state.closing`` (an `asyncio.Event`) to end all live streams, as `dashboards.page.server` does.
    """
    app = FastAPI(
        title="railwatch node",
        version=version,
        docs_url=None,  # the stock viewers load from other hosts
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
    )
    closing = asyncio.Event()
    app.state.closing = closing
    app.include_router(api_router(source, clock, closing, asyncio.Semaphore(MOST_WATCHERS)))
    app.include_router(history_router(source, clock))
    if answers is not None:
        app.include_router(answer_router(source, answers))

    @app.get("/", include_in_schema=False)
    def index() -> FileResponse:
        return FileResponse(STATIC_DIR / "index.html")

    @app.exception_handler(RailwatchError)
    def cannot_answer(_request: Request, err: RailwatchError) -> JSONResponse:
        return JSONResponse({"detail": str(err)}, status_code=503, headers={"Retry-After": "1"})

    if echarts is not None:
        app.mount("/static/echarts", StaticFiles(directory=echarts), name="echarts")
    app.mount("/static", StaticFiles(directory=STATIC_DIR), name="static")
    app.add_middleware(Gate, token=token, act_token=act_token)
    return app
