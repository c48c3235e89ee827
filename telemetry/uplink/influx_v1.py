"""Destination InfluxDB 1.x, and other servers with its write endpoint."""

import urllib.parse
from dataclasses import dataclass, field

import urllib3

from telemetry.errors import NotPermittedError, TransientError
from telemetry.rollup import Resolution
from telemetry.store.influxql import InfluxQl, quoted
from telemetry.uplink.port import WriteReply, WriteStatus, reply_of, unreachable

_DAY_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class InfluxV1Settings:
    """Address, account and retention.

    `rollup_s` of None keeps rollups and records for ever. An existing retention policy is not changed.
    """

    url: str
    database: str = "railwatch"
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    raw_policy: str = "raw"
    rollup_policy: str = "rollup"
    raw_s: int = 7 * _DAY_S
    rollup_s: int | None = None
    timeout_s: float = 10.0


class InfluxV1:
    """Writer to one database of a server with the InfluxDB 1.x endpoint."""

    def __init__(self, settings: InfluxV1Settings) -> None:
        self.name = f"InfluxDB 1.x {settings.url} database {settings.database}"
        self._settings = settings
        self._ql = InfluxQl(
            settings.url, username=settings.username, password=settings.password, timeout_s=settings.timeout_s
        )
        self._headers = (
            {} if settings.username is None else dict(
                urllib3.make_headers(basic_auth=f"{settings.username}:{settings.password or ''}")
            )
        )  # fmt: skip
        self._pool = urllib3.PoolManager(maxsize=1, headers=self._headers)
        base = settings.url.rstrip("/")
        self._urls = {
            resolution: f"{base}/write?"
            + urllib.parse.urlencode({"db": settings.database, "rp": self._policy(resolution), "precision": "ns"})
            for resolution in Resolution
        }

    def prepare(self) -> WriteReply:
        """Create the database and both retention policies; skipped for an account that may only write."""
        settings = self._settings
        database = quoted(settings.database)
        rollup = f"{settings.rollup_s}s" if settings.rollup_s is not None else "INF"
        create_policy = "CREATE RETENTION POLICY {} ON {} DURATION {} REPLICATION 1"
        raw = create_policy.format(quoted(settings.raw_policy), database, f"{settings.raw_s}s")
        # The default policy, so that a plain `SELECT ... FROM incident` finds what is kept long.
        long = create_policy.format(quoted(settings.rollup_policy), database, rollup) + " DEFAULT"
        try:
            for statement in (f"CREATE DATABASE {database}", raw, long):
                self._ql.query(statement, allow=("already exists",))
        except NotPermittedError as err:
            if "HTTP 401" in str(err):
                return WriteReply(status=WriteStatus.REFUSED, reason=str(err))
        except TransientError as err:
            return WriteReply(status=WriteStatus.AWAY, reason=str(err))
        return WriteReply(status=WriteStatus.STORED)

    def write(self, resolution: Resolution, body: bytes) -> WriteReply:
        """Send lines to the retention policy of their resolution."""
        try:
            response = self._pool.request(
                "POST", self._urls[resolution], body=body, timeout=self._settings.timeout_s, retries=False
            )
        except urllib3.exceptions.HTTPError as err:
            return unreachable(err)
        text = response.data.decode(errors="replace") or response.headers.get("X-Influxdb-Error", "")
        return reply_of(response.status, text, retry_after=response.headers.get("Retry-After"))

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()
        self._ql.close()

    def _policy(self, resolution: Resolution) -> str:
        return self._settings.raw_policy if resolution is Resolution.RAW else self._settings.rollup_policy
