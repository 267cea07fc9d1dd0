// The last events of all brokers, with a filter to try: which match, and which atom of the filter does not.

import { getJson } from "./feed.js";
import { clock, count, el, find, put, setText } from "./dom.js";

const EVERY_MS = 2000;
const TYPING_MS = 250;
const CHARACTER_PX = 7.3; // of the monospaced font

export class Tail {
  constructor(panel, select, onEvents) {
    Object.assign(this, { select, onEvents, paused: false, filter: "", refused: "", rows: new Map(), seen: new Map(), turn: 0 });
    this.meta = find(".meta", panel);
    this.problem = find("#problem");
    this.box = find("#filter");
    this.matching = find("#matching");
    this.body = el("tbody", { keydown: (event) => this.keys(event) });
    this.table = el("table", { "aria-label": "Last events" },
      el("colgroup", {}, el("col", { width: "70" }), el("col", { width: "104" }), el("col", { width: "20" }), el("col")),
      el("thead", {}, el("tr", {}, ...["Time", "Published at", "", "Attributes"].map((title) => el("th", { scope: "col" }, title)))),
      this.body);
    this.none = el("p", { class: "empty" }, "no events yet: plait pub symbol=IBM price=99.5");
    find(".body", panel).append(this.table, this.none);
    find("#try").addEventListener("submit", (event) => {
      event.preventDefault();
      this.apply();
    });
    this.box.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.apply(), TYPING_MS);
    });
    this.matching.addEventListener("change", () => this.apply());
    setInterval(() => !this.paused && !document.hidden && this.refresh(), EVERY_MS);
  }

  apply() {
    this.filter = this.box.value.trim();
    this.refresh();
  }

  async refresh() {
    const turn = (this.turn += 1);
    const filter = this.filter === this.refused ? "" : this.filter; // a refused filter is not sent again
    const query = new URLSearchParams();
    if (filter) query.set("filter", filter);
    if (filter && this.matching.checked) query.set("matching", "1");
    try {
      const answer = await getJson(`/api/v1/events?${query}`);
      if (turn !== this.turn) return; // a later request is running
      if (this.filter === filter) this.showProblem("");
      this.show(answer.events, filter);
    } catch (error) {
      if (turn !== this.turn || !filter) return;
      this.showProblem(error.message, error.facts);
      if (error.status !== 400) return;
      this.refused = filter;
      this.refresh();
    }
  }

  /** Show what is wrong with the filter: the message, the text with a caret below the column, the hint. */
  showProblem(problem, { text = "", column = 0, hint = "" } = {}) {
    const lines = [problem];
    if (column) {
      const width = Math.max(24, Math.floor((this.box.closest(".panel").clientWidth - 40) / CHARACTER_PX));
      const start = Math.max(0, Math.min(column - Math.ceil(width / 2), text.length + 1 - width));
      lines.push(text.slice(start, start + width).replaceAll(/\s/g, " "), `${" ".repeat(column - 1 - start)}^`);
    }
    if (hint) lines.push(hint);
    this.problem.hidden = !problem;
    setText(this.problem, problem ? lines.join("\n") : "");
    put(this.box, "aria-invalid", Boolean(problem));
  }

  show(events, filter) {
    const at = Date.now() / 1000;
    const focused = this.body.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const before = this.rows;
    this.rows = new Map();
    const lines = events.map((event) => {
      const content = JSON.stringify([event.result, event.why]);
      const known = before.get(event.event);
      const row = known?.content === content ? known : { content, line: this.line(event, at, filter) }; // a row that is being clicked stays
      this.rows.set(event.event, row);
      return row.line;
    });
    this.body.replaceChildren(...lines);
    this.seen = new Map(events.map((event) => [event.event, this.seen.get(event.event) ?? at - event.ago_s]));
    if (lines.length) put(lines.find((line) => line.dataset.key === focused) ?? lines[0], "tabindex", 0);
    if (focused) lines.find((line) => line.dataset.key === focused)?.focus({ preventScroll: true });
    this.table.hidden = !events.length;
    this.none.hidden = events.length > 0;
    setText(this.none, filter && this.matching.checked ? "no recent event matches" : "no events yet: plait pub symbol=IBM price=99.5");
    const hits = events.filter((event) => event.result === true).length;
    setText(this.meta, filter && events.length ? `${count(hits)} of the last ${events.length} match` : "");
    if (!filter) this.onEvents(events);
  }

  line(event, now, filter) {
    const when = this.seen.get(event.event) ?? now - event.ago_s;
    const mark = { true: ["●", "good", "matches"], false: ["○", "muted", "does not match"] }[event.result] ?? (filter ? ["?", "warn", "unknown"] : ["", "", ""]);
    const pairs = Object.entries(event.attributes).map(([name, value]) => el("span", { class: "pair" }, el("i", {}, `${name}=`), typeof value === "string" ? value : JSON.stringify(value)));
    const why = event.result !== true && event.why?.length ? el("div", { class: "why" }, event.why.join("; ")) : null;
    const line = el("tr", { tabindex: -1, click: () => this.select("event", event.event), "aria-selected": event.event === this.selected },
      el("td", { class: "muted" }, clock(when)), el("td", {}, event.at),
      el("td", { class: mark[1], title: mark[2], "aria-label": mark[2] }, mark[0]), el("td", { class: "mono" }, ...pairs, why));
    line.dataset.key = event.event;
    return line;
  }

  mark(id) {
    this.selected = id;
    for (const line of this.body.children) put(line, "aria-selected", line.dataset.key === id);
  }

  keys(event) {
    const line = event.target.closest("tr");
    const to = { ArrowDown: line?.nextSibling, ArrowUp: line?.previousSibling }[event.key];
    if (event.key === "Enter" && line) this.select("event", line.dataset.key);
    else if (to) {
      put(line, "tabindex", -1);
      put(to, "tabindex", 0);
      to.focus();
    } else return;
    event.preventDefault();
  }
}
