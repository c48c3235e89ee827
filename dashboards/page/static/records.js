// Incidents with their evidence, the actions in force with their leases, and what happened lately.

import { byId, element, setText } from "./dom.js";
import { UNKNOWN, clockTime, countdown, duration, humanised, labelList, multiple, nsToMs, quantity } from "./format.js";
import { nowMs, state } from "./stream.js";

const MOST_CLOSED = 8;
const MOST_LINES = 40;
const VERDICTS = { execute: "Decision", recommend: "Recommendation", observe: "Would act", refuse: "Refused", pending: "Waits for approval" };
let announced = null; // ids announced to screen readers; null until the first drawing

const labelOfId = (id) => state.entities.find((entity) => entity.id === id)?.label ?? id ?? "the node";
const labelsOfIds = (ids) => labelList(ids.map(labelOfId));
const inForce = (action) => state.labels.in_force.includes(action.state);
const titleOf = (incident) => state.labels.causes[incident.cause]?.[0] ?? humanised(incident.cause);
const knobOf = (action) => state.labels.knobs[action.knob_kind ?? action.knob] ?? humanised(action.knob);

const stateOf = (incident) => (incident.held ? state.labels.held : (state.labels.incident_states[incident.state] ?? incident.state));

/** A stamp in local time with UTC in its tooltip. */
const stamp = (ns) =>
  element(
    "time",
    { datetime: new Date(nsToMs(ns)).toISOString(), title: new Date(nsToMs(ns)).toISOString() },
    clockTime(nsToMs(ns)),
  );

export function drawRecords() {
  if (!state.labels) return;
  const { incidents, actions } = state.records;
  const active = incidents.filter((incident) => incident.state !== "closed");
  const closed = incidents.filter((incident) => incident.state === "closed").slice(0, MOST_CLOSED);
  fill("incidents", [...active.map(incidentCard), closed.length && closedList(closed)], "No incident is open.");
  const waiting = state.records.decisions.filter((decision) => decision.verdict === "pending");
  byId("approvals").hidden = waiting.length === 0;
  fill("approvals", waiting.map(approvalCard), "");
  fill("actions", groups(actions.filter(inForce)).map(actionCard), "No setting of railwatch is in force.");
  fill("log", [logList()], "");
  setText(byId("incidents-title"), active.length ? `Incidents · ${active.length} active` : "Incidents");
  announce(active);
  drawLeases();
}

function fill(id, children, otherwise) {
  const kept = children.filter(Boolean);
  const body = byId(id).querySelector(".body");
  const openDetails = [...body.querySelectorAll("details[open]")].map((item) => item.dataset.key);
  body.replaceChildren(...(kept.length ? kept : [element("p", { class: "quiet" }, otherwise)]));
  for (const item of body.querySelectorAll("details")) item.open = openDetails.includes(item.dataset.key);
}

function incidentCard(incident) {
  const finding = [...incident.findings].sort((a, b) => b.time_ns - a.time_ns)[0];
  return element(
    "article",
    { class: `incident ${incident.severity}`, id: `incident-${incident.id}`, "data-state": incident.state },
    element(
      "header",
      {},
      element("h3", {}, titleOf(incident)),
      element("span", { class: "badge severity" }, incident.severity),
      element("span", { class: "badge" }, stateOf(incident)),
    ),
    summaryOf(incident),
    element("p", { class: "dim" }, state.labels.causes[incident.cause]?.[1] ?? ""),
    likely(incident),
    finding?.evidence.length ? evidenceTable(finding) : null,
    answer(incident),
    element(
      "p",
      { class: "foot dim" },
      "opened ",
      stamp(incident.opened_ns),
      ` · ${labelsOfIds([incident.entity_id, ...incident.affected])}`,
      incident.impact_gpu_hours ? ` · expected loss ${incident.impact_gpu_hours.toPrecision(2)} GPU-hours` : "",
    ),
  );
}

/** The summary in bold, and its notes. */
function summaryOf({ summary, notes = [] }) {
  return element("p", { class: "summary" }, element("strong", {}, summary), notes.map((note) => `; ${note}`).join(""));
}

/** The three likeliest fault classes, and who silenced the incident. */
function likely(incident) {
  const answers = (incident.hypotheses ?? [])
    .slice(0, 3)
    .map((item) => `${humanised(item.cause).toLowerCase()} ${Math.round(item.probability * 100)}%`);
  const parts = [answers.length && `Likely cause: ${answers.join(", ")}`, incident.silence].filter(Boolean);
  return parts.length ? element("p", { class: "likely" }, parts.join(" · ")) : null;
}

const evidenceText = ({ name, value, unit }) =>
  state.labels.multiples.includes(name) ? multiple(value) : quantity(value, unit, unit === "V" ? 3 : undefined);

/** The evidence of one finding, under the label of its entity: the headline may be of another one. */
function evidenceTable({ entity_id: id, evidence }) {
  const row = (item) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, state.labels.evidence[item.name] ?? humanised(item.name)),
      element("td", { class: "number" }, evidenceText(item)),
    );
  return element(
    "table",
    { class: "evidence" },
    element("caption", {}, `${labelOfId(id)}, newest evidence`),
    element("tbody", {}, evidence.map(row)),
  );
}

/** The newest decision about an incident, and whether it helped. */
function answer(incident) {
  const decision = state.records.decisions.find((item) => item.incident_id === incident.id);
  const outcome = state.records.outcomes.find((item) => item.incident_id === incident.id);
  if (!decision && !outcome) return null;
  const helped = { true: "helped", false: "did not help", null: "not clear" };
  return element(
    "ul",
    { class: "answer" },
    decision &&
      element(
        "li",
        {},
        element(
          "strong",
          {},
          { execute: "Acted: ", recommend: "Would act: ", observe: "Observed: ", refuse: "Refused: ", pending: "Waits for approval: " }[
            decision.verdict
          ] ?? "",
        ),
        decisionText(decision),
      ),
    outcome && element("li", {}, element("strong", {}, "Outcome: "), withVerdict(outcome.summary, helped[outcome.helped])),
  );
}

/** A summary that does not contain its verdict gets it at the end. */
const withVerdict = (summary, verdict) => (summary.includes(verdict) ? summary : `${summary} — ${verdict}`);

function decisionText(decision) {
  const where = labelsOfIds(decision.targets);
  const cap = decision.clock_mhz === null ? "" : ` at ${quantity(decision.clock_mhz, "MHz")}`;
  return `${(state.labels.knobs[decision.action] ?? humanised(decision.action)).toLowerCase()}${cap}${where && ` on ${where}`}. ${decision.reason}`;
}

function closedList(incidents) {
  const line = (incident) =>
    element(
      "li",
      { id: `incident-${incident.id}`, class: incident.severity, "data-state": incident.state },
      stamp(incident.opened_ns),
      " ",
      element("strong", {}, titleOf(incident)),
      ` · ${labelOfId(incident.entity_id)} · ${incident.summary}`,
      incident.closed_ns ? ` · lasted ${duration((incident.closed_ns - incident.opened_ns) / 1e9)}` : "",
    );
  return element(
    "details",
    { class: "closed", "data-key": "closed" },
    element("summary", {}, `Closed · ${incidents.length}`),
    element("ul", {}, incidents.map(line)),
  );
}

/** A decision that waits for approval, with its buttons; `page.act_token` is required. */
function approvalCard(decision) {
  const button = (answer, label) => {
    const made = element("button", { type: "button", "data-answer": answer }, label);
    made.addEventListener("click", () => answerTo(decision.id, answer));
    return made;
  };
  return element(
    "article",
    { class: "action", "data-decision": decision.id },
    element("p", {}, decisionText(decision)),
    element("p", { class: "foot dim" }, decision.expires_ns ? ["until ", stamp(decision.expires_ns)] : null),
    element("p", {}, button("approve", "Approve"), " ", button("reject", "Reject")),
  );
}

async function answerTo(id, answer) {
  const who = prompt("Your name");
  const token = who && (sessionStorage.getItem("act_token") || prompt("The token to act (page.act_token)"));
  if (!token) return;
  const result = byId("approvals").querySelector(".result");
  setText(result, "…");
  const reply = await fetch(`/api/v1/approvals/${encodeURIComponent(id)}`, {
    method: "POST",
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    body: JSON.stringify({ answer, who }),
  }).catch((error) => ({ text: () => String(error), status: 0 }));
  if (reply.status === 403) sessionStorage.removeItem("act_token");
  else sessionStorage.setItem("act_token", token);
  setText(result, reply.ok ? (await reply.json()).message : await reply.text());
}

/** Equal actions on several GPUs become one card. */
function groups(actions) {
  const sets = new Map();
  for (const action of actions) {
    const key = [action.incident_id, action.knob, action.found, action.wanted, action.read_back, action.state].join(
      "|",
    );
    sets.set(key, [...(sets.get(key) ?? []), action]);
  }
  return [...sets.values()];
}

function actionCard(actions) {
  const [first] = actions;
  const leases = actions.map((action) => action.lease_until_ns).filter((ns) => ns !== null);
  const step = (label, value, kind) =>
    element(
      "div",
      { class: kind },
      element("dt", {}, label),
      element("dd", {}, value === null ? (kind === "found" ? "not set" : UNKNOWN) : quantity(value, first.unit)),
    );
  return element(
    "article",
    { class: "action", "data-state": first.state },
    element(
      "header",
      {},
      element("h3", {}, `${knobOf(first)} · ${labelsOfIds(actions.map((action) => action.entity_id))}`),
      element("span", { class: "badge" }, state.labels.action_states[first.state]),
    ),
    element(
      "dl",
      { class: "steps" },
      step("found", first.found, "found"),
      step("set", first.wanted, "set"),
      step("read back", first.read_back, first.read_back === first.wanted ? "same" : "differs"),
    ),
    element("p", { class: "dim" }, first.reason),
    element(
      "p",
      { class: "foot dim" },
      leases.length
        ? ["lease ", element("span", { class: "lease", "data-until-ms": nsToMs(Math.min(...leases)) })]
        : "no lease",
      ` · ${first.mode} · by ${first.owner} · `,
      first.ahead_of
        ? `reflex ahead of ${first.ahead_of}`
        : element("a", { href: `#incident-${first.incident_id}` }, "incident"),
    ),
  );
}

/** A knob without a setting is not unknown: the driver decides. */
const settingOf = (value, unit) => (value === null ? "not set" : quantity(value, unit));

export function drawLeases() {
  for (const lease of document.querySelectorAll(".lease")) {
    const left = (Number(lease.dataset.untilMs) - nowMs()) / 1000;
    setText(lease, left > 0 ? `${countdown(left)} left` : "ended");
  }
}

function logList() {
  const { events, decisions, actions, outcomes, incidents } = state.records;
  const lines = [
    ...events.map((event) => [
      event.time_ns,
      event.severity,
      [state.labels.events[event.kind] ?? event.kind, event.code ?? ""].join(" ").trim(),
      `${event.entity_id ? `${labelOfId(event.entity_id)}: ` : ""}${event.message}`,
    ]),
    ...incidents.map((incident) => [
      incident.opened_ns,
      incident.severity,
      "Incident",
      `${titleOf(incident)} at ${labelOfId(incident.entity_id)}`,
    ]),
    ...incidents
      .filter((incident) => incident.closed_ns)
      .map((incident) => [
        incident.closed_ns,
        "info",
        "Closed",
        `${titleOf(incident)} at ${labelOfId(incident.entity_id)}`,
      ]),
    ...decisions.map((decision) => [decision.time_ns, "info", VERDICTS[decision.verdict], decisionText(decision)]),
    ...groups(actions).map((set) => [
      set[0].time_ns,
      "info",
      "Action",
      `${knobOf(set[0])} ${state.labels.action_states[set[0].state]} on ${labelsOfIds(set.map((action) => action.entity_id))}: ${settingOf(set[0].found, set[0].unit)} → ${settingOf(set[0].wanted, set[0].unit)}${set[0].ahead_of ? ` (reflex ahead of ${set[0].ahead_of})` : ""}`,
    ]),
    ...outcomes.map((outcome) => [outcome.time_ns, "info", "Outcome", outcome.summary]),
  ];
  if (!lines.length) return element("p", { class: "quiet" }, "Nothing yet.");
  lines.sort((a, b) => b[0] - a[0]);
  return element(
    "ol",
    { class: "log" },
    lines
      .slice(0, MOST_LINES)
      .map(([ns, severity, kind, text]) =>
        element(
          "li",
          { class: severity },
          stamp(ns),
          element("span", { class: "kind" }, kind),
          element("span", { class: "text" }, text),
        ),
      ),
  );
}

function announce(active) {
  const ids = active.map((incident) => incident.id);
  const fresh = announced === null ? [] : active.filter((incident) => !announced.has(incident.id));
  announced = new Set(ids);
  if (fresh.length)
    setText(
      byId("announce"),
      fresh.map((incident) => `New incident: ${titleOf(incident)}. ${incident.summary}`).join(" "),
    );
}
