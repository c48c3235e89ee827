// The connection to the node: server-sent events in, the page's state out. Knows no element of the page.

import * as samples from "./samples.js";

export const state = {
  status: null,
  entities: [],
  wiring: null,
  labels: null,
  records: { incidents: [], decisions: [], actions: [], outcomes: [], events: [] },
  staleAfterMs: 3000,
  connection: "connecting", // connecting | live | reconnecting | away
  problem: "",
};

let offsetMs = Date.now() - performance.now(); // the node's clock over ours
let receivedAt = null;

/** The node's time now, in ms, going on while the connection is away. */
export const nowMs = () => performance.now() + offsetMs;

/** Seconds since the node was last received, null before the first time. */
export const silenceS = () => (receivedAt === null ? null : (performance.now() - receivedAt) / 1000);

/** Return records with those that changed, without those that are gone, newest first. */
function merged(held, changes) {
  const kinds = Object.entries(changes.gone).map(([kind, gone]) => {
    const known = new Map([...held[kind], ...changes[kind]].map((record) => [record.id, record]));
    for (const id of gone) known.delete(id);
    return [kind, [...known.values()].sort((a, b) => b.time_ns - a.time_ns)];
  });
  return Object.fromEntries(kinds);
}

const SILENT_MS = 4000; // the node speaks five times a second

/** Connect and stay connected; `on` holds a function per message: hello, entities, samples, records, status, connection. */
export function connect(on) {
  const events = new EventSource("/api/v1/live");
  const received = (data) => {
    receivedAt = performance.now();
    offsetMs = data.now_ms - receivedAt;
  };
  const become = (connection, problem = "") => {
    if (state.connection === connection && state.problem === problem) return;
    Object.assign(state, { connection, problem });
    on.connection();
  };
  const listen = (name, take) => events.addEventListener(name, (event) => take(JSON.parse(event.data)));

  listen("hello", (data) => {
    received(data);
    samples.clear();
    samples.add(data.tables, data.now_ms);
    Object.assign(state, {
      status: data.status,
      entities: data.entities,
      wiring: data.wiring,
      labels: data.labels,
      records: data.records,
      staleAfterMs: data.stale_after_s * 1000,
    });
    become("live");
    on.hello();
  });
  listen("entities", (data) => {
    Object.assign(state, { entities: data.entities, wiring: data.wiring });
    on.entities();
  });
  listen("samples", (data) => {
    received(data);
    samples.add(data.tables, data.now_ms);
    become("live");
    on.samples();
  });
  listen("records", (data) => {
    state.records = merged(state.records, data);
    on.records();
  });
  listen("status", (data) => {
    received(data);
    state.status = data.status;
    on.status();
  });
  listen("away", (data) => {
    received(data);
    become("away", data.problem);
  });
  events.onerror = () => {
    become("reconnecting");
    // The browser gives up after an answer such as 401 or 503; ask again from the start.
    if (events.readyState === EventSource.CLOSED) setTimeout(() => connect(on), 3000);
  };
  const watch = setInterval(() => {
    if (events.readyState === EventSource.CLOSED) clearInterval(watch);
    else if (receivedAt !== null && performance.now() - receivedAt > SILENT_MS) become("reconnecting");
  }, 500);
}
