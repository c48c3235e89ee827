"""Section `store`: where samples and records are stored, and how long samples are kept."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from config.section import Section, at_least, web_url
from telemetry.durations import DurationS, SizeBytes
from telemetry.key_problems import missing_key


class StoreKind(StrEnum):
    """Kind of store that samples are written to."""

    EMBEDDED = "embedded"
    INFLUXDB1 = "influxdb1"
    INFLUXDB2 = "influxdb2"


class Store(Section):
    """Store of samples and records."""

    kind: StoreKind = Field(
        default=StoreKind.EMBEDDED,
        description="`embedded` needs no server; `influxdb1` writes to /write, `influxdb2` to /api/v2/write.",
    )
    url: Annotated[str, AfterValidator(web_url)] | None = Field(
        default=None, description="Address of the server, such as http://127.0.0.1:8086."
    )
    database: str = Field(default="railwatch", min_length=1, description="Database (1.x).")
    username: str | None = Field(default=None, description="User (1.x).")
    password: str | None = Field(default=None, description="Password (1.x); prefer RAILWATCH_STORE__PASSWORD.")
    org: str = Field(default="railwatch", min_length=1, description="Organisation (2.x).")
    bucket: str = Field(
        default="railwatch",
        min_length=1,
        description="Bucket (2.x); rollups go to the bucket of this name + `-rollup`.",
    )
    token: str | None = Field(default=None, description="Token (2.x); prefer RAILWATCH_STORE__TOKEN.")
    basic_auth: bool = Field(
        default=False, description="Send the token `user:password` as basic authentication (VictoriaMetrics)."
    )
    raw_retention: Annotated[DurationS, at_least(3600, "1h")] = Field(
        default=7 * 86400.0, description="Retention of full-rate samples."
    )
    rollup_retention: Annotated[DurationS, at_least(3600, "1h")] = Field(
        default=365 * 86400.0, description="Retention of one-second rollups."
    )
    embedded_max: Annotated[SizeBytes, at_least(16 << 20, "16MiB")] = Field(
        default=4 << 30, description="Size limit of the embedded store; the oldest samples are deleted first."
    )
    spool_max: Annotated[SizeBytes, at_least(1 << 20, "1MiB")] = Field(
        default=256 << 20, description="Disk space for samples that wait while the server is unreachable."
    )

    @model_validator(mode="after")
    def _server_has_an_address(self) -> Self:
        if self.kind is not StoreKind.EMBEDDED and self.url is None:
            expected = (
                f"the address of the server, such as http://127.0.0.1:8086: required when kind is {self.kind.value}"
            )
            raise missing_key("url", expected)
        return self
