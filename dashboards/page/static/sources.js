// Where samples come from, what is missing and how to get it, and what the agent itself costs.

import { byId, element } from "./dom.js";
import { quantity } from "./format.js";
import * as samples from "./samples.js";
import { nowMs, state } from "./stream.js";

export function drawSources() {
  const { collectors, sampler } = state.status;
  const agent = state.entities.find((entity) => entity.kind === "agent");
  const own = (signal) => (agent ? samples.latest(agent.id, signal, nowMs(), 5000) : null);
  const late = own("tick_late_p99_s");
  const facts = [
    [
      "Sampling",
      `${quantity(Number(sampler.rate_hz.toPrecision(3)), "Hz")}${sampler.overruns ? `, ${sampler.overruns} ticks skipped` : ""}${sampler.detail ? `, ${sampler.detail}` : ""}`,
    ],
    ["Agent CPU", own("cpu_ratio") === null ? "unknown" : `${(own("cpu_ratio") * 100).toFixed(1)}% of one core`],
    ["Agent memory", quantity(own("resident_bytes"), "B")],
    ["Tick lateness, p99", late === null ? "unknown" : `${(late * 1000).toFixed(2)} ms`],
  ];
  byId("sources")
    .querySelector(".body")
    .replaceChildren(
      element(
        "dl",
        { class: "facts" },
        facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
      ),
      element(
        "ul",
        { class: "collectors" },
        collectors.map((item) =>
          element(
            "li",
            { "data-state": item.state },
            element("strong", {}, item.name),
            element("span", { class: "badge" }, item.state.replaceAll("_", " ")),
            element("span", { class: "dim" }, [item.detail, item.how_to_get].filter(Boolean).join(" — ")),
          ),
        ),
      ),
    );
}
