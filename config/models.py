"""What can be configured, with its defaults and bounds.

The sample file and the reference are generated from these models: a field's description and default are all there
is to write.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from analytics.detectors.limits import DetectorLimits
from analytics.incidents.book_settings import BookSettings
from config.actions import Actions
from config.actuators import Actuators
from config.control import Control
from config.fleet import Fleet
from config.recorder import Recorder
from config.section import Section, UserPath, at_least, web_url
from config.sources import AutoHz, Sources
from rules.limits.node import RailsSettings
from telemetry.durations import DurationS, SizeBytes


class StoreKind(StrEnum):
    """Where samples go."""

    EMBEDDED = "embedded"
    INFLUXDB1 = "influxdb1"
    INFLUXDB2 = "influxdb2"


class Node(Section):
    """What this node is called."""

    name: str = Field(
        default="", max_length=200, description="Name of this node in every record; empty takes the host name."
    )


class Sampling(Section):
    """How often the sensors are read."""

    fast_hz: AutoHz = Field(
        default=None,
        ge=1,
        le=1000,
        description=(
            "Reads per second of the fast group; `auto` measures how often the GPUs' sensors update and reads in step "
            "with them, at most 100 times a second, less often while no GPU works."
        ),
    )
    cpu_budget: float = Field(
        default=0.1,
        gt=0,
        le=1,
        description=(
            "Share of a core that the thread which reads the GPUs may take; above it `auto` reads them less often. "
            "The whole process is the agent's `cpu_ratio`."
        ),
    )
    driver_budget: float = Field(
        default=0.1, gt=0, le=1, description="Share of time inside the GPU driver above which `auto` reads less often."
    )
    slow_hz: float = Field(default=1.0, ge=0.01, le=10, description="Reads per second of the slow group.")
    rare: Annotated[DurationS, at_least(1, "1s")] = Field(
        default=10.0, description="Time between two reads of what is costly to ask for: board controllers, meters."
    )
    ring: Annotated[DurationS, at_least(10, "10s")] = Field(
        default=600.0, description="How much full-rate history is kept in memory."
    )
    ring_max: Annotated[SizeBytes, at_least(1 << 20, "1MiB")] = Field(
        default=256 << 20,
        description="Size bound of that history for each sampling process; where it is full, less time is kept.",
    )
    deadline: Annotated[DurationS, at_least(0.1, "100ms")] = Field(
        default=2.0,
        description="A read that takes longer counts as hung; its source is set aside and tried again later.",
    )


class Store(Section):
    """Where samples and records are kept."""

    kind: StoreKind = Field(
        default=StoreKind.EMBEDDED,
        description="`embedded` needs no server; `influxdb1` writes to /write, `influxdb2` to /api/v2/write.",
    )
    url: Annotated[str, AfterValidator(web_url)] | None = Field(
        default=None, description="Address of the server, such as http://127.0.0.1:8086."
    )
    database: str = Field(default="railwatch", min_length=1, description="Database (1.x).")
    username: str | None = Field(default=None, description="User (1.x).")
    password: str | None = Field(default=None, description="Password (1.x); better given as an environment variable.")
    org: str = Field(default="railwatch", min_length=1, description="Organisation (2.x).")
    bucket: str = Field(
        default="railwatch",
        min_length=1,
        description="Bucket (2.x); rollups go to the bucket of this name + `-rollup`.",
    )
    token: str | None = Field(default=None, description="Token (2.x); better given as an environment variable.")
    basic_auth: bool = Field(
        default=False, description="Send the token `user:password` as basic authentication (VictoriaMetrics)."
    )
    raw_retention: Annotated[DurationS, at_least(3600, "1h")] = Field(
        default=7 * 86400.0, description="How long full-rate samples are kept."
    )
    rollup_retention: Annotated[DurationS, at_least(3600, "1h")] = Field(
        default=365 * 86400.0, description="How long one-second rollups are kept."
    )
    embedded_max: Annotated[SizeBytes, at_least(16 << 20, "16MiB")] = Field(
        default=4 << 30, description="Size bound of the embedded store; the oldest samples go first."
    )
    spool_max: Annotated[SizeBytes, at_least(1 << 20, "1MiB")] = Field(
        default=256 << 20, description="Size bound of what waits on disk while the server is away."
    )

    @model_validator(mode="after")
    def _server_has_an_address(self) -> Self:
        if self.kind is not StoreKind.EMBEDDED and self.url is None:
            raise ValueError(f"store.url, since store.kind is {self.kind.value}")
        return self


class Rules(Section):
    """Which policies decide."""

    builtin: bool = Field(default=True, description="Use the policies that come with railwatch.")
    dirs: tuple[UserPath, ...] = Field(
        default=(),
        description="Folders of the site's policy files; a policy with the id of a built-in one replaces it.",
    )
    node_dirs: tuple[UserPath, ...] = Field(
        default=(), description="Folders of this node's own policy files; they replace the site's by their id."
    )


class Page(Section):
    """The built-in page and API."""

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=8470, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    token: str | None = Field(
        default=None, min_length=16, description="Required where `host` is not a loopback address."
    )
    act_token: str | None = Field(
        default=None,
        min_length=16,
        description="Lets whoever holds it approve and reject decisions over HTTP; nobody may where it is not set.",
    )

    @model_validator(mode="after")
    def _open_address_has_a_token(self) -> Self:
        if self.host not in ("127.0.0.1", "::1", "localhost") and self.token is None:
            raise ValueError("page.token, since page.host is not a loopback address")
        if self.act_token is not None and self.act_token == self.token:
            raise ValueError("another act_token than token: who may read may not act")
        return self


class Analytics(Section):
    """How sure the judgement has to be before it calls somebody."""

    pages_per_node_month: float = Field(
        default=0.1,
        gt=0,
        le=1000,
        description=(
            "False pages that are allowed for each node in a month. `railwatch models calibrate` makes thresholds for "
            "it from healthy recordings; what was achieved stands in the status and in `railwatch incidents rate`."
        ),
    )
    thresholds: UserPath | None = Field(
        default=None,
        description=(
            "File of thresholds that `railwatch models calibrate` wrote; they raise limits of `detectors`, and lower "
            "none."
        ),
    )


def default_data_dir() -> Path:
    """Return the folder for state where nobody names one."""
    return Path("~/.local/state/railwatch").expanduser()


class Config(Section):
    """Everything that can be configured."""

    data_dir: UserPath = Field(
        default_factory=default_data_dir, description="Folder for the store, the spool and the journals."
    )
    node: Node = Node()
    sampling: Sampling = Sampling()
    sources: Sources = Sources()
    recorder: Recorder = Recorder()
    store: Store = Store()
    detectors: DetectorLimits = DetectorLimits()
    analytics: Analytics = Analytics()
    incidents: BookSettings = BookSettings()
    actions: Actions = Actions()
    actuators: Actuators = Actuators()
    rails: RailsSettings = RailsSettings()
    rules: Rules = Rules()
    page: Page = Page()
    fleet: Fleet = Fleet()
    control: Control = Control()

    @model_validator(mode="after")
    def _the_page_has_its_port_to_itself(self) -> Self:
        if self.sources.readings.tcp_port == self.page.port:
            raise ValueError(f"another sources.readings.tcp_port than {self.page.port}, which page.port has")
        return self
