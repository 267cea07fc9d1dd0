// Incidents, the latest first. Each kind has its own shape in addition to its colour.

import { clock, el, find, setText } from "./dom.js";

const MARKS = { join: ["+", "good"], "link up": ["+", "good"], leave: ["✕", "bad"], "link down": ["✕", "bad"], drain: ["▼", "warn"], reroute: ["↷", "muted"], drops: ["▲", "bad"], slow: ["◗", "warn"], security: ["!", "bad"] };

export class IncidentsPanel {
  constructor(panel, select) {
    this.select = select;
    this.body = find(".body", panel);
    this.meta = find(".meta", panel);
  }

  update(state) {
    const found = Object.entries(state.incidents ?? {}).sort((a, b) => b[0] - a[0]);
    setText(this.meta, found.length ? `${found.length}` : "");
    const key = found[0]?.[0] ?? "none";
    if (key === this.latest) return;
    this.latest = key;
    this.body.replaceChildren(...(found.length ? found.map(([, one]) => this.line(one)) : [el("p", { class: "empty" }, "nothing since this page was first opened")]));
  }

  line(one) {
    const [mark, mood] = MARKS[one.kind] ?? ["·", "muted"];
    return el("div", { class: "incident" }, el("time", {}, clock(one.at)), el("span", { class: mood, title: one.kind, "aria-label": one.kind }, mark), el("span", {}, one.text));
  }
}
