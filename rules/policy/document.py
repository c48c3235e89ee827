"""A policy as a YAML file: every key, its unit and its bounds."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, Field, field_validator

from rules.conditions.document import WhenField, condition_of
from rules.policy.case_document import CaseDocument
from rules.policy.document_values import CLOSED, PolicyId, Sentence, Sentences
from rules.policy.model import Policy, PolicyStatus
from rules.policy.then_document import ThenDocument
from telemetry.durations import format_duration
from telemetry.json_text import json_text


class PolicyHead(BaseModel):
    """Keys that a policy of a node and one of a fleet share."""

    model_config = CLOSED

    id: PolicyId = Field(description="lower-case words joined by hyphens")
    status: PolicyStatus
    why: Sentence = Field(description="what it prevents")
    source: Sentences = Field(min_length=1, description="where its numbers come from")
    when: WhenField = Field(description="which incidents it applies to: a value for each fact")


class PolicyDocument(PolicyHead):
    """Policy: when it applies, what it does, why, the sources of its numbers, and its cases."""

    after: PolicyId | None = Field(
        default=None, description="id of the policy whose symptom check must have failed first"
    )
    then: ThenDocument
    cases: tuple[CaseDocument, ...] = Field(description="at least one that fires and one that expects none")

    @field_validator("cases")
    @classmethod
    def _both_kinds(cls, value: tuple[CaseDocument, ...]) -> tuple[CaseDocument, ...]:
        check_cases([(case.name, bool(case.expect)) for case in value], acts="fires", quiet="none")
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
            cases=self.cases,
            where=where,
            after=self.after,
        )


def check_cases(cases: Sequence[tuple[str, bool]], *, acts: str, quiet: str) -> None:
    """Refuse cases, given by name and whether they act, unless both kinds are there and each name is unique."""
    if len({is_acting for _, is_acting in cases}) < 2:
        raise ValueError(f"a case that {acts} and a case that expects {quiet}")
    if len({name for name, _ in cases}) < len(cases):
        raise ValueError("a unique name for each case")


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
    return json_text(policy_schema(), indent=2, ascii_only=False) + "\n"
