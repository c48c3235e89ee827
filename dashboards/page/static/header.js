// The head of the page: which node, whether it is simulated, how far it may go, how it does.

import { byId, element, setText } from "./dom.js";
import { bytes, capitalised, duration } from "./format.js";
import { silenceS, state } from "./stream.js";

const STORES = {
  embedded: "On this machine",
  sending: "Sending",
  away: "Away, spooling",
  refused: "Refuses, spooling",
};
const CONNECTIONS = { connecting: "Connecting", live: "Live", reconnecting: "Reconnecting", away: "Node silent" };

export function drawHeader() {
  const { status } = state;
  if (!status) return;
  document.title = `${status.node} · railwatch`;
  setText(byId("node"), status.node);
  byId("simulated").hidden = !status.simulated;
  setText(byId("source"), `${status.source} · up ${duration(status.uptime_s)} · railwatch ${status.version}`);
  drawMode(status.modes);
  chip("health", status.health, capitalised(status.health), status.health_reason);
  drawStore(status.store);
}

export function drawConnection() {
  const silence = silenceS();
  const detail =
    state.connection === "live"
      ? "five times a second"
      : state.problem || (silence ? `last sample received ${duration(silence)} ago` : "");
  chip("connection", state.connection, CONNECTIONS[state.connection], detail);
}

/** The first class is the one that touches hardware: its mode is the node's. */
function drawMode([first, ...others]) {
  if (!first) return chip("mode", "observe", "OBSERVE", state.labels.modes.observe);
  const named = ({ action }) => action.replaceAll("_", " ");
  const modes = Object.keys(state.labels.modes).reverse().filter((mode) => others.some((other) => other.mode === mode));
  const listed = modes.map((mode) => `${mode}: ${others.filter((other) => other.mode === mode).map(named).join(", ")}`);
  const detail = `${named(first)} ${state.labels.modes[first.mode]}`;
  return chip("mode", first.mode, first.mode.toUpperCase(), detail, listed.join("; "));
}

function drawStore(store) {
  const waiting = store.spool_bytes ? bytes(store.spool_bytes) : null;
  const lost = store.dropped_points + store.refused_points;
  const detail = [
    store.name,
    waiting && `${waiting.text} ${waiting.unit} wait`,
    store.behind_s !== null && store.behind_s >= 5 && `${duration(store.behind_s)} behind`,
    lost && `${lost} points lost`,
    store.detail,
  ];
  chip("store", store.state, STORES[store.state] ?? store.state, detail.filter(Boolean).join(" · "));
}

function chip(id, value, word, detail, more = "") {
  const holder = byId(id);
  holder.dataset.state = value;
  const body = holder.querySelector("dd");
  if (!body.firstChild)
    body.append(element("strong"), element("span", { class: "detail" }), element("span", { class: "detail" }));
  const [strong, first, second] = body.children;
  setText(strong, word);
  setText(first, detail);
  setText(second, more);
  holder.title = [detail, more].filter(Boolean).join("; ");
}
