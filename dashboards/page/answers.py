"""The one path of /api/v1 that acts: approving or rejecting a pending decision."""

from typing import Annotated, Literal

from fastapi import APIRouter, HTTPException, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, StringConstraints

from dashboards.page.shapes import CommandShape
from dashboards.page.source import ApprovalPort, PageSource
from telemetry.commands import WHO_MAX, WHY_MAX
from telemetry.json_text import json_text
from telemetry.record_json import to_json
from telemetry.records import Verdict

_Line = StringConstraints(strip_whitespace=True, pattern=r"^[^\x00-\x1f]*$")


class Answer(BaseModel):
    """Body of an approval or a rejection."""

    model_config = ConfigDict(extra="forbid")

    answer: Literal["approve", "reject"]
    who: Annotated[str, _Line, StringConstraints(min_length=1, max_length=WHO_MAX)]
    why: Annotated[str, _Line, StringConstraints(max_length=WHY_MAX)] = ""


def answer_router(source: PageSource, answers: ApprovalPort) -> APIRouter:
    """Build the path; `dashboards.page.access.Gate` decides who may call it."""
    router = APIRouter(prefix="/api/v1", tags=["acting"], default_response_class=JSONResponse)

    @router.post(
        "/approvals/{decision_id}",
        summary="Approve or reject a decision that waits",
        description="Needs the token of `page.act_token`. Returns the command once the guard has taken it.",
        responses={
            200: {"model": CommandShape},
            403: {},
            404: {},
            503: {"description": "The guard did not take it in time."},
        },
    )
    def answer(decision_id: str, given: Answer) -> Response:
        decisions = source.records().decisions
        if not any(one.id == decision_id and one.verdict is Verdict.PENDING for one in decisions):
            raise HTTPException(404, f"{decision_id} does not wait for a person; GET /api/v1/approvals lists what does")
        approve = given.answer == "approve"
        command = answers.answer(decision_id, approve=approve, who=given.who, why=given.why)
        return Response(json_text(to_json(command)), media_type="application/json")

    return router
