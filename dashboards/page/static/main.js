// Ties the parts of the page together; each part draws itself from the state that the stream keeps.

import { drawCharts, layOutCharts, layOutIfChanged, loadCharts } from "./charts.js";
import { byId, setText } from "./dom.js";
import { duration } from "./format.js";
import { drawConnection, drawHeader } from "./header.js";
import { drawReadings, layOutReadings } from "./tables.js";
import { drawLeases, drawRecords } from "./records.js";
import * as samples from "./samples.js";
import { drawSources } from "./sources.js";
import { connect, nowMs, state } from "./stream.js";
import { drawWiring, layOutWiring, renewStanding } from "./wiring.js";

/** One line across the page while what it shows is not the present. */
function drawNotice() {
  const notice = byId("notice");
  const newest = samples.newest();
  const ageMs = newest === null ? null : nowMs() - newest;
  let text = "";
  if (state.connection === "reconnecting")
    text = "Connection to the node lost; reconnecting. Readings are unknown until it answers.";
  else if (state.connection === "away") text = `The node cannot be read: ${state.problem}`;
  else if (state.status && ageMs === null) text = "No samples yet.";
  else if (ageMs !== null && ageMs > state.staleAfterMs)
    text = `No new samples for ${duration(ageMs / 1000)}. Readings are unknown.`;
  notice.hidden = text === "";
  setText(notice, text);
}

function drawSlow() {
  drawNotice();
  drawConnection();
  drawLeases();
  drawReadings();
  drawWiring();
}

await loadCharts();
connect({
  hello() {
    layOutReadings();
    drawHeader();
    drawConnection();
    drawRecords();
    drawSources();
    layOutCharts();
    layOutWiring();
    document.documentElement.dataset.ready = "true";
  },
  entities() {
    if (layOutIfChanged()) layOutReadings();
    layOutWiring();
    drawRecords();
  },
  samples() {
    drawReadings();
    drawCharts();
  },
  records() {
    drawRecords();
    drawCharts();
  },
  status() {
    drawHeader();
    drawSources();
    if (!layOutIfChanged()) return;
    layOutReadings();
    layOutWiring();
  },
  connection: drawConnection,
});
setInterval(drawSlow, 500);
setInterval(renewStanding, 30_000);
document.addEventListener("visibilitychange", drawCharts);
