// Incidents, the latest first. Each kind has its own shape in addition to its colour.

import { clock, el, find, setText } from "./dom.js";

const MARKS = { join: ["+", "good"], "link up": ["+", "good"], leave: ["✕", "bad"], "link down": ["✕", "bad"], drain: ["▼", "warn"], reroute: ["↷", "muted"], drops: ["▲", "bad"], slow: ["◗", "warn"], late: ["◷", "warn"], security: ["!", "bad"] };

export class IncidentsPanel {
  constructor(panel, select) {
    this.select = select;
    this.body = find(".body", panel);
    this.meta = find(".meta", panel);
  }

  update(state) {
    const found = Object.entries(state.incidents ?? {}).sort((a, b) => b[1].at - a[1].at || b[0] - a[0]);
    setText(this.meta, found.length ? `${found.length}` : "");
    const key = found.length ? `${Math.max(...found.map(([number]) => number))}` : "none";
    if (key === this.latest) return;
    this.latest = key;
    this.body.replaceChildren(...(found.length ? found.map(([, one]) => this.line(one)) : [el("p", { class: "empty" }, "none since the brokers started")]));
  }

  line(one) {
    const [mark, mood] = MARKS[one.kind] ?? ["·", "muted"];
    const times = one.count > 1 ? ` (${one.count} times since ${clock(one.first)})` : "";
    return el("div", { class: "incident" }, el("time", {}, clock(one.at)), el("span", { class: mood, title: one.kind, "aria-label": one.kind }, mark), el("span", {}, one.text + times));
  }
}
