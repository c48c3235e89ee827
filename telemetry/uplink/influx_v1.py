"""InfluxDB 1.x through its own endpoint, and whatever else speaks it."""

import urllib.parse
from dataclasses import dataclass, field

import urllib3

from telemetry.errors import NotPermittedError, TransientError
from telemetry.store.influxql import InfluxQl, quoted
from telemetry.store.resolution import Resolution
from telemetry.uplink.answers import reply_of, unreachable
from telemetry.uplink.port import Answer, Reply

_DAY_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class InfluxV1Settings:
    """Where to write and how long the server should keep it.

    `rollup_s` of None keeps rollups and records for ever. A retention policy that exists is left as it is.
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
    """Writes to one database of a server that speaks InfluxDB 1.x."""

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

    def prepare(self) -> Reply:
        """Make the database and both retention policies; an account that may only write goes on without."""
        settings = self._settings
        database = quoted(settings.database)
        rollup = f"{settings.rollup_s}s" if settings.rollup_s is not None else "INF"
        create_policy = "CREATE RETENTION POLICY {} ON {} DURATION {} REPLICATION 1"
        raw = create_policy.format(quoted(settings.raw_policy), database, f"{settings.raw_s}s")
        # The default one, so that a plain `SELECT ... FROM incident` finds what is kept long.
        long = create_policy.format(quoted(settings.rollup_policy), database, rollup) + " DEFAULT"
        try:
            for statement in (f"CREATE DATABASE {database}", raw, long):
                self._ql.query(statement, allow=("already exists",))
        except NotPermittedError as err:
            if "HTTP 401" in str(err):
                return Reply(answer=Answer.REFUSED, reason=str(err))
        except TransientError as err:
            return Reply(answer=Answer.AWAY, reason=str(err))
        return Reply(answer=Answer.STORED)

    def write(self, resolution: Resolution, body: bytes) -> Reply:
        """Send lines to the retention policy of their resolution."""
        try:
            answer = self._pool.request(
                "POST", self._urls[resolution], body=body, timeout=self._settings.timeout_s, retries=False
            )
        except urllib3.exceptions.HTTPError as err:
            return unreachable(err)
        text = answer.data.decode(errors="replace") or answer.headers.get("X-Influxdb-Error", "")
        return reply_of(answer.status, text, retry_after=answer.headers.get("Retry-After"))

    def close(self) -> None:
        """Let connections go."""
        self._pool.clear()
        self._ql.close()

    def _policy(self, resolution: Resolution) -> str:
        return self._settings.raw_policy if resolution is Resolution.RAW else self._settings.rollup_policy
