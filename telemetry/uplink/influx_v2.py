"""Servers that speak the InfluxDB 2.x write API, through the official client: InfluxDB 2 and 3, VictoriaMetrics."""

from dataclasses import dataclass, field

import urllib3
from influxdb_client import InfluxDBClient, WritePrecision
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.rest import ApiException

from telemetry.rollup import Resolution
from telemetry.uplink.port import WriteReply, WriteStatus, reply_of, unreachable


@dataclass(frozen=True, slots=True, kw_only=True)
class InfluxV2Settings:
    """Address, account and buckets: one for raw samples, one for rollups and records, created with the server's tools.

    `token` is an API token, or ``user:password`` where `basic_auth` is set, as for VictoriaMetrics behind a password.
    """

    url: str
    org: str = ""
    token: str = field(default="", repr=False)
    raw_bucket: str = "raw"
    rollup_bucket: str = "rollup"
    basic_auth: bool = False
    timeout_s: float = 10.0


class InfluxV2:
    """Writer to two buckets; one synchronous call per batch, because the client's own queue has no bound."""

    def __init__(self, settings: InfluxV2Settings) -> None:
        self.name = f"InfluxDB 2.x {settings.url} buckets {settings.raw_bucket}, {settings.rollup_bucket}"
        self._settings = settings
        self._client = InfluxDBClient(
            url=settings.url.rstrip("/"),
            token=settings.token,
            org=settings.org,
            timeout=int(settings.timeout_s * 1000),
            auth_basic=settings.basic_auth,
        )
        self._write_api = self._client.write_api(write_options=SYNCHRONOUS)
        self._buckets = {Resolution.RAW: settings.raw_bucket, Resolution.ROLLUP: settings.rollup_bucket}

    def prepare(self) -> WriteReply:
        """Do nothing: to create buckets takes rights that an agent should not have."""
        return WriteReply(status=WriteStatus.STORED)

    def write(self, resolution: Resolution, body: bytes) -> WriteReply:
        """Send lines to the bucket of their resolution."""
        try:
            self._write_api.write(
                bucket=self._buckets[resolution],
                org=self._settings.org,
                record=body,
                write_precision=WritePrecision.NS,
            )
        except ApiException as err:
            retry_after = (err.headers or {}).get("Retry-After")
            text = err.body.decode(errors="replace") if isinstance(err.body, bytes) else str(err.body or err.reason)
            return reply_of(err.status or 0, text, retry_after=retry_after)
        except urllib3.exceptions.HTTPError as err:
            return unreachable(err)
        return WriteReply(status=WriteStatus.STORED)

    def close(self) -> None:
        """Close the connections."""
        self._write_api.close()
        self._client.close()
