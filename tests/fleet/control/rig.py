"""Admission of a node over a real actuator and fake knobs, and a fleet service with valid or invalid signatures."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_hex

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agent.actuation.actuator import KnobActuator
from agent.actuation.knob_log import KnobLog
from fleet.certificates.identity import Peer
from fleet.certificates.tokens import READ, Token, act, issue_token
from fleet.control.admission import Admission, AdmissionSettings
from fleet.control.node_limits import NodeState
from fleet.control.replay_protection import ReplayProtection
from fleet.control.request import ControlReply, NodeRequest, RequestVerb, sealed
from rules.limits.node import NodeLimits
from rules.policy.model import ActionClass
from telemetry.clock import NS_PER_S
from telemetry.gpu import KnobKind
from telemetry.records import Decision, Event, Mode
from tests.agent.fakes import FakeClock, FakeKnob

NODE, FLEET = "node1", "fleet-a"
# What a V100 SXM2 may be set to in watts; and a fan in steps of five per cent.
LIMITS_W = tuple(float(limit) for limit in range(150, 301, 5))
FANS = tuple(step / 20 for step in range(6, 21))
DAY_NS = 86_400 * NS_PER_S


@dataclass
class Rig:
    """Node under test; `restart` is its next control process, over the same folder and knob."""

    folder: Path
    limits: NodeLimits = field(default_factory=lambda: NodeLimits(modes=dict.fromkeys(ActionClass, Mode.ENFORCE)))
    clock: FakeClock = field(default_factory=FakeClock)
    breaker: str | None = None
    silence: str | None = None
    guard_acted_ns: tuple[tuple[ActionClass, int], ...] = ()
    published: list[Decision | Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.authority, self.key = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
        self.knob = FakeKnob()
        journal = KnobLog(self.folder / "actuator", run_id="run-1")
        self.power = FakeKnob(name="power_limit", found=300.0, supported=LIMITS_W, kind=KnobKind.POWER)
        self.fan = FakeKnob(name="fan", found=None, supported=FANS, kind=KnobKind.FAN)
        self.actuator = KnobActuator((self.knob, self.power, self.fan), journal, self.clock, sink=lambda _: None)
        self.settings = AdmissionSettings(
            node=NODE, fleets=frozenset({FLEET, "fleet-b"}), authority=self.authority.public_key(), limits=self.limits
        )
        self.token = self.token_for(FLEET)
        self.start()

    def start(self) -> None:
        self.seen = ReplayProtection(self.folder / "seen.jsonl", now_ns=self.clock.utc_ns())
        self.admission = Admission(
            self.settings, self.actuator, self.seen, self.clock, self.state, self.published.append
        )

    def restart(self) -> None:
        self.seen.close()
        self.start()

    def state(self) -> NodeState:
        settings = {
            knob.kind: {f"gpu:{uuid}": (min(knob.settable), max(knob.settable)) for uuid in knob.settings}
            for knob in (self.knob, self.power, self.fan)
        }
        return NodeState(settings=settings, breaker=self.breaker, silence=self.silence, acted_ns=self.guard_acted_ns)

    def token_for(self, fleet: str, *scopes: str, key: Ed25519PrivateKey | None = None) -> str:
        now_ns = self.clock.utc_ns()
        token = Token(
            id="t-1",
            fleet=fleet,
            scopes=scopes or (READ, act(ActionClass.CLOCK_CAP)),
            not_before_ns=now_ns - NS_PER_S,
            expires_ns=now_ns + DAY_NS,
        )
        return issue_token(token, key or self.authority)

    def ask(self, do: RequestVerb = RequestVerb.CAP, /, **changed: object) -> NodeRequest:
        """Build a request that is valid except for the given fields."""
        now_ns = self.clock.utc_ns()
        fields: dict[str, object] = {
            "node": NODE,
            "fleet": FLEET,
            "term": 1,
            "instance": "one",
            "do": do,
            "incident_id": "i-1",
            "policy_id": "feed-sag-clock-cap",
            "decision_id": "d-1",
            "ratio": 0.66 if do is RequestVerb.CAP else None,
            "lease_s": 120.0,
            "reason": "the feed sags",
            "issued_ns": now_ns,
            "expires_ns": now_ns + 20 * NS_PER_S,
            "nonce": token_hex(16),
        }
        return NodeRequest.model_validate(fields | changed)

    def body(self, ask: NodeRequest, *, key: Ed25519PrivateKey | None = None, token: str = "") -> bytes:
        return sealed(ask, key=key or self.key, token=token or self.token)

    def peer(self, fleet: str = FLEET) -> Peer:
        return Peer(fleet=fleet, key=self.key.public_key(), where="127.0.0.1")

    def send(self, ask: NodeRequest) -> ControlReply:
        return self.admission.handle(self.body(ask), self.peer())

    @property
    def settings_mhz(self) -> set[float | None]:
        return set(self.knob.settings.values())


def with_rails(rig: Rig, **changed: object) -> None:
    """Pass a rig other rails."""
    rig.settings = replace(rig.settings, limits=replace(rig.limits, **changed))  # type: ignore[arg-type]
    rig.restart()
