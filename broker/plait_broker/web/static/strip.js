// The strip of present figures, each with its last ten minutes.

import { count, el, ms, percent, put, setText, Spark } from "./dom.js";

const STATS = [
  { name: "Delivered", unit: "/s", value: (now) => count(now.delivered_s), history: "delivered_s" },
  { name: "Published", unit: "/s", value: (now) => count(now.published_s), history: "published_s", why: (now) => (now.reasons?.unmatched ? `${count(now.reasons.unmatched)} unmatched` : "") },
  { name: "Lost", unit: "/s", value: (now) => count(now.lost_s), history: "lost_s", mood: (now) => now.lost_s > 0 && "bad", why: reasons },
  { name: "Late", unit: "", value: late, history: "late_s", mood: (now) => now.late_s > 0 && "warn", why: (now) => (now.late_s ? `${count(now.late_s)}/s over bound${now.reasons?.late ? ", dropped" : ""}` : "") },
  { name: "Delay, median", unit: "", value: (now) => ms(now.p50_ms), history: "p50_ms" },
  { name: "Delay, 99%", unit: "", value: (now) => ms(now.p99_ms), history: "p99_ms", why: (now) => (now.p999_ms == null ? "" : `99.9%: ${ms(now.p999_ms)}`) },
  { name: "Brokers up", unit: (now) => `of ${now.brokers}`, value: (now) => count(now.brokers_up), mood: (now) => now.brokers_up < now.brokers && "bad" },
  { name: "Links up", unit: (now) => `of ${now.links}`, value: (now) => count(now.links_up), mood: (now) => now.links_up < now.links && "bad" },
  { name: "Clients", unit: "", value: (now) => count(now.clients) },
  { name: "Subscriptions", unit: "", value: (now) => count(now.subscriptions), why: (now) => `${count(now.advertisements)} advertisements` },
  { name: "Waiting", unit: "", value: (now) => count(now.pending), history: "pending", mood: (now) => now.slow_consumers > 0 && "warn", why: (now) => (now.slow_consumers ? `${now.slow_consumers} slow consumers` : "") },
];

function reasons(now) {
  return Object.entries(now.lost_reasons ?? {}).sort((a, b) => b[1] - a[1]).map(([reason, rate]) => `${reason} ${count(rate)}`).join(", ");
}

// The share of the events beyond their bound among those that were to be delivered.
function late(now) {
  const all = (now.delivered_s || 0) + (now.reasons?.late || 0);
  return percent(all ? Math.min(1, (now.late_s || 0) / all) : 0);
}

export class Strip {
  constructor(panel) {
    this.cells = STATS.map((stat) => {
      const value = document.createTextNode("–");
      const unit = el("small");
      const why = el("div", { class: "why" });
      const spark = stat.history ? new Spark() : null;
      const cell = el("dl", { class: "stat" }, el("dt", {}, stat.name), el("dd", {}, value, unit), why, spark?.element);
      cell.style.margin = "0 -1px -1px 0";
      panel.append(cell);
      return { stat, cell, value, unit, why, spark };
    });
  }

  update(state, dirty) {
    const now = state.now ?? {};
    const history = dirty.has("history") ? Object.values(state.history ?? {}).slice(-150) : null;
    for (const { stat, cell, value, unit, why, spark } of this.cells) {
      const text = stat.value(now);
      if (value.data !== text) value.data = text;
      setText(unit, typeof stat.unit === "function" ? stat.unit(now) : stat.unit);
      const detail = stat.why?.(now) ?? "";
      setText(why, detail);
      put(why, "title", detail);
      put(cell, "data-mood", stat.mood?.(now) || "calm");
      if (history && spark) spark.draw(history.map((entry) => entry[stat.history] ?? null), Math.max(30, history.length));
    }
  }
}
