"""Power cycle of the node through Redfish, after the approval of a person: ComputerSystem.Reset.

Redfish: DMTF DSP0266 (actions, 7.12) and the schema ComputerSystem of DSP0268.
"""

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from agent.collectors.bmc.redfish_client import RedfishClient, child, children, link, text_field
from agent.responding.port import MessageRequest, Receipt, Switch, SwitchOwner
from agent.responding.reset import PowerCycleSettings
from telemetry.atomic_files import replace_file
from telemetry.clock import NS_PER_S, Clock, iso_utc
from telemetry.errors import ActionRefusedError, NotSupportedError, TransientError
from telemetry.json_text import json_bytes
from telemetry.records import Decision, Verdict

logger = logging.getLogger(__name__)

ACTION = "power_cycle"
# Parameter of a decision with the person who approved it; the engine adds it.
APPROVED_BY = "approved_by"
FILE_NAME = "power_cycle.json"
# heuristic: a node that needs it twice a day needs a person, and an endless loop of power cycles wears the hardware.
_EVERY_NS = 86_400 * NS_PER_S
_SYSTEMS = "/redfish/v1/Systems"
# heuristic: a controller reports the new state within seconds.
_LOOK_EVERY_S = 2.0


class Occupancy(Protocol):
    """Source of the work that a power cycle would destroy."""

    def busy(self) -> Sequence[str]:
        """Return the names of what runs on the node now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDrain:
    """Drain switch of a scheduler, and the name of the node there."""

    switch: Switch
    target: str


class PowerCycle:
    """Resets the node through its controller.

    It refuses without the approval of a person, more than once a day, while the node is not drained or still has work,
    and if the controller does not list the reset as allowed. The time is on disk before the request: the node that
    sends it usually goes down.

    `approver` returns who approved a decision, None if it is not approved. Each scheduler of `drains` must have the
    node drained, and no source of `occupancies` may report work on it.
    """

    name = ACTION

    def __init__(
        self,
        settings: PowerCycleSettings,
        client: Callable[[], RedfishClient],
        *,
        folder: Path,
        clock: Clock,
        approver: Callable[[Decision], str | None],
        drains: Sequence[NodeDrain] = (),
        occupancies: Sequence[Occupancy] = (),
    ) -> None:
        self._settings = settings
        self._client = client
        self._path = folder / FILE_NAME
        self._clock = clock
        self._approver = approver
        self._drains = tuple(drains)
        self._occupancies = tuple(occupancies)

    def check(self, order: MessageRequest) -> str:
        """Return what the request would be, or that it was sent already."""
        if self._kept().get("token") == order.token:
            return f"{self._settings.reset.value} was requested already"
        self._admit(order, asked=False)
        client = self._client()
        try:
            path, _ = self._system(client)
            return f"would request {self._settings.reset.value} of {path} from {client.name}"
        finally:
            client.close()

    def send(self, order: MessageRequest) -> Receipt:
        """Request the reset and wait until the node is on again."""
        if self._kept().get("token") == order.token:
            return self._asked_before()
        who = self._admit(order, asked=True)
        client = self._client()
        try:
            path, target = self._system(client)
            before = client.get(path)
            self._keep(order, who)
            logger.warning("requesting %s of %s, approved by %s", self._settings.reset.value, path, who)
            client.post(target, {"ResetType": self._settings.reset.value})
            return self._read_back(client, path, before, who=who)
        finally:
            client.close()

    def _admit(self, order: MessageRequest, *, asked: bool) -> str:
        """Return who approved it; raises ActionRefusedError where it may not be."""
        decision = order.decision
        if decision.action != ACTION or order.recovery:
            raise ActionRefusedError(f"{decision.action} is not a power cycle")
        others = [one for one in decision.targets if one != f"node:{self._settings.node}"]
        incident_node = order.incident is not None and order.incident.entity_id == f"node:{self._settings.node}"
        if others and not incident_node and any(one.startswith("node:") for one in others):
            raise ActionRefusedError(f"{others[0]} is not this node, {self._settings.node}")
        who = self._approver(decision)
        if asked and (decision.verdict is not Verdict.EXECUTE or who is None):
            raise ActionRefusedError("not approved by a person: railwatch actions approve")
        self._rest()
        self._idle()
        return who or ""

    def _rest(self) -> None:
        last_ns = self._last_ns()
        since_ns = self._clock.utc_ns() - (last_ns or 0)
        if last_ns is not None and since_ns < _EVERY_NS:
            raise ActionRefusedError(f"last power cycle at {iso_utc(last_ns)[:19]}Z; at most one a day")

    def _idle(self) -> None:
        if not self._drains and not self._settings.undrained:
            raise ActionRefusedError("no scheduler is configured that could confirm the drain: set actuators.drain")
        for drain in self._drains:
            standing = drain.switch.read(drain.target)
            if standing.held is SwitchOwner.FREE:
                raise ActionRefusedError(f"{drain.target} is not drained in {drain.switch.name}: {standing.summary}")
        busy = [summary for occupancy in self._occupancies for summary in occupancy.busy()]
        if busy:
            more = f" and {len(busy) - 3} more" if len(busy) > 3 else ""
            raise ActionRefusedError(f"{self._settings.node} still works: {', '.join(busy[:3])}{more}")

    def _system(self, client: RedfishClient) -> tuple[str, str]:
        """Return the paths of the node and of its reset; NotSupportedError if the controller does not allow it."""
        path = self._settings.system or _only_system(client)
        action = child(child(client.get(path), "Actions"), "#ComputerSystem.Reset")
        target = text_field(action, "target")
        if not target.startswith("/"):
            raise NotSupportedError(f"{client.name}{path} has no action ComputerSystem.Reset")
        allowed = _allowed(client, action)
        wanted = self._settings.reset.value
        if wanted not in allowed:
            raise NotSupportedError(
                f"{client.name}{path} does not allow {wanted}; it allows {', '.join(allowed) or 'nothing'}"
            )
        return path, target

    def _read_back(self, client: RedfishClient, path: str, before: Any, *, who: str) -> Receipt:
        """Wait until the node was seen off and on again, or its reset time changed."""
        until_s = self._clock.monotonic_s() + self._settings.back_within_s
        was, state = text_field(before, "LastResetTime"), "unknown"
        seen_off = False
        while self._clock.monotonic_s() < until_s:
            self._clock.sleep_until(self._clock.monotonic_s() + _LOOK_EVERY_S)
            try:
                now = client.get(path)
            except TransientError as err:
                state = str(err)
                continue
            state = text_field(now, "PowerState") or "unknown"
            seen_off = seen_off or state != "On"
            stamp = text_field(now, "LastResetTime")
            if state == "On" and (seen_off or stamp not in ("", was)):
                return Receipt(summary=f"{self._settings.reset.value}, approved by {who}: PowerState On again")
        seen = "was never seen off" if state == "On" else "is not on"
        begin = f"{self._settings.reset.value}, approved by {who}: {path} {seen} within "
        return Receipt(summary=f"{begin}{self._settings.back_within_s:g} s, PowerState {state}", done=False)

    def _asked_before(self) -> Receipt:
        """Return the result of a reset whose reply was lost, usually because the node itself went down."""
        last_ns = self._last_ns() or 0
        # CLOCK_MONOTONIC begins with the kernel: clock_gettime(2).
        up_since_ns = self._clock.utc_ns() - round(self._clock.monotonic_s() * NS_PER_S)
        requested = f"{self._settings.reset.value} requested at {iso_utc(last_ns)[:19]}Z"
        if up_since_ns > last_ns:
            return Receipt(summary=f"{requested}; the node has started since")
        return Receipt(summary=f"{requested}, no reply and no restart since; not repeated", done=False)

    # The last request, on disk.

    def _kept(self) -> dict[str, Any]:
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as err:
            raise ActionRefusedError(f"{self._path}: cannot read the time of the last power cycle") from err
        if not isinstance(kept, dict) or not isinstance(kept.get("time_ns"), int):
            raise ActionRefusedError(f"{self._path}: no time of the last power cycle; remove the file")
        return kept

    def _last_ns(self) -> int | None:
        kept = self._kept()
        return int(kept["time_ns"]) if kept else None

    def _keep(self, order: MessageRequest, who: str) -> None:
        kept = {
            "time_ns": self._clock.utc_ns(),
            "token": order.token,
            "decision": order.decision.id,
            "incident": order.decision.incident_id,
            "approved_by": who,
            "reset": self._settings.reset.value,
        }
        try:
            replace_file(self._path, json_bytes(kept))
        except OSError as err:
            raise TransientError(f"{self._path}: {err.strerror}; not requested without a record on disk") from err


def approver_of(decision: Decision) -> str | None:
    """Return who approved a decision, None if it is not approved."""
    return dict(decision.parameters).get(APPROVED_BY) or None


def _only_system(client: RedfishClient) -> str:
    found = [path for member in children(client.get(_SYSTEMS), "Members") if (path := link(member)) is not None]
    if len(found) != 1:
        raise NotSupportedError(
            f"{client.name} has {len(found)} systems: {', '.join(found) or 'none'}; set actuators.power_cycle.system"
        )
    return found[0]


def _allowed(client: RedfishClient, action: Any) -> tuple[str, ...]:
    """Return the allowed resets: from the action, or from the resource that describes it (DSP0266 7.12)."""
    listed = action.get("ResetType@Redfish.AllowableValues")
    described = action.get("@Redfish.ActionInfo")
    if not isinstance(listed, list) and isinstance(described, str) and described.startswith("/"):
        found = [one for one in children(client.get(described), "Parameters") if text_field(one, "Name") == "ResetType"]
        listed = found[0].get("AllowableValues") if found else None
    return tuple(one for one in listed if isinstance(one, str)) if isinstance(listed, list) else ()
