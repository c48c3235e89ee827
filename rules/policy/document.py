"""A policy as a YAML file: every key, its unit and its bounds."""

import json
from typing import Any

from pydantic import BaseModel, Field, field_validator

from rules.conditions.document import WhenField, condition_of
from rules.policy.case_document import CaseDocument
from rules.policy.document_values import CLOSED, PolicyId, Sentence, Sentences
from rules.policy.model import Policy, PolicyStatus
from rules.policy.then_document import ThenDocument
from telemetry.durations import format_duration


class PolicyDocument(BaseModel):
    """One policy: when it applies, what it does, why, the sources of its numbers, and its cases."""

    model_config = CLOSED

    id: PolicyId = Field(description="lower-case words joined by hyphens")
    status: PolicyStatus
    why: Sentence = Field(description="what it prevents")
    source: Sentences = Field(min_length=1, description="where its numbers come from")
    when: WhenField = Field(description="which incidents it applies to: a value for each fact")
    after: PolicyId | None = Field(
        default=None, description="id of the policy whose symptom check must have failed first"
    )
    then: ThenDocument
    cases: tuple[CaseDocument, ...] = Field(description="at least one that fires and one that expects none")

    @field_validator("cases")
    @classmethod
    def _both_kinds(cls, value: tuple[CaseDocument, ...]) -> tuple[CaseDocument, ...]:
        if not any(case.expect for case in value) or all(case.expect for case in value):
            raise ValueError("a case that fires and a case that expects none")
        names = [case.name for case in value]
        if len(set(names)) < len(names):
            raise ValueError("a unique name for each case")
        return value

    def policy(self, *, where: str) -> Policy:
        """Return it as the engine uses it."""
        return Policy(
            id=self.id,
            status=self.status,
            why=self.why,
            source=self.source,
            when=condition_of(self.when),
            then=self.then.response(),
            cases=tuple(case.case() for case in self.cases),
            where=where,
            after=self.after,
        )


def policy_schema() -> dict[str, Any]:
    """Return the JSON Schema of a policy file, for editors and other checkers."""
    schema = PolicyDocument.model_json_schema(mode="validation")
    for definition in (schema, *schema["$defs"].values()):
        for key in definition.get("properties", {}).values():
            if key.get("default", "") is None:
                del key["default"]
            # Defaults of durations are in seconds inside; a file writes them with their unit.
            if key.get("type") == "string" and isinstance(key.get("default"), float):
                key["default"] = format_duration(key["default"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "railwatch policy"}


def policy_schema_text() -> str:
    """Return the text of the committed schema, ``rules/policy/policy.schema.json``."""
    return json.dumps(policy_schema(), indent=2, ensure_ascii=False) + "\n"
