// Panels with lists: links, subscriptions, delay bounds, slow consumers, resources.

import { age, bytes, byText, count, el, find, ms, percent, put, setText, svg, Spark, Table } from "./dom.js";
import { paired, stateOf } from "./topology.js";

const KEPT = 90; // samples of a link's delay

const total = (counts) => Object.values(counts ?? {}).reduce((sum, n) => sum + n, 0);

/** What the broker and the client of a subscription hold, and what they have dropped. A backlog has what the client holds. */
const waiting = (row) => row.pending + (row.durable ? 0 : row.client_waiting ?? 0);

export class Links {
  constructor(panel, select) {
    this.meta = find(".meta", panel);
    this.delays = new Map();
    this.sparks = new WeakMap();
    this.table = new Table(find(".body", panel), [
      { title: "Link", text: (row) => row.name },
      { title: "State", width: "62", text: stateOf, mood: (row) => (row.state !== "up" ? "bad" : row.full ? "warn" : "muted") },
      { title: "Delay", width: "72", num: true, text: (row) => ms(row.delay_ms) },
      { title: "Jitter", width: "66", num: true, text: (row) => ms(row.jitter) },
      { title: "Loss", width: "46", num: true, text: (row) => percent(row.loss), mood: (row) => (row.loss > 0 ? "bad" : "") },
      { title: "Events", width: "64", num: true, text: (row) => `${count(row.rate)}/s` },
      { title: "Used", width: "50", num: true, text: (row) => (row.used === null ? "" : percent(row.used)) },
      { title: "Waiting", width: "64", num: true, text: (row) => bytes(row.pending), mood: (row) => (row.full ? "warn" : "") },
      { title: "Delay history", width: "88", draw: (cell, row) => this.spark(cell, row) },
    ], { select: (key) => select("link", key), empty: "no other brokers", label: "Links between brokers" });
  }

  update(state, selected) {
    const rows = [];
    for (const [key, pair] of paired(state.links ?? {})) {
      const kept = this.delays.get(key) ?? [];
      kept.push(pair.state === "up" ? pair.delay_ms : null);
      if (kept.length > KEPT) kept.shift();
      this.delays.set(key, kept);
      const most = (name) => Math.max(0, ...pair.directions.map((link) => link[name] ?? 0));
      const used = pair.directions.some((link) => typeof link.utilisation === "number") ? most("utilisation") : null;
      const name = pair.ends.map((end) => state.brokers?.[end]?.name ?? end).sort().join(" – ");
      rows.push([key, { ...pair, name, jitter: most("jitter_ms"), pending: most("pending_bytes"), used, kept }]);
    }
    rows.sort(([, a], [, b]) => (a.state === "up") - (b.state === "up") || b.full - a.full || b.delay_ms - a.delay_ms || byText(a.name, b.name));
    this.table.update(rows);
    this.table.mark(selected?.kind === "link" ? selected.id : null);
    setText(this.meta, rows.length ? "the slower direction of each" : "");
    for (const key of this.delays.keys()) if (!rows.some(([known]) => known === key)) this.delays.delete(key);
  }

  spark(cell, row) {
    let spark = this.sparks.get(cell);
    if (!spark) {
      spark = new Spark(84, 16);
      spark.element.setAttribute("height", "16");
      spark.element.setAttribute("width", "100%");
      this.sparks.set(cell, spark);
      cell.append(spark.element);
    }
    spark.draw(row.kept, KEPT);
  }
}

export class Subscriptions {
  constructor(panel, select) {
    this.meta = find(".meta", panel);
    this.table = new Table(find(".body", panel), [
      { title: "Client", width: "22%", text: (row) => row.client || row.durable || "unnamed", mood: (row) => (row.connected ? "" : "muted") },
      { title: "At", width: "15%", text: (row) => `${row.at}/${row.number}` },
      { title: "Filter", mono: true, text: (row) => row.filter },
      { title: "Delivered", width: "72", num: true, text: (row) => count(row.delivered) },
      { title: "Handed out", width: "80", num: true, text: (row) => (row.handed_out === null ? "" : count(row.handed_out)), mood: (row) => (total(row.client_dropped) ? "warn" : "") },
      { title: "Waiting", width: "66", num: true, text: (row) => (row.pending ? count(row.pending) : ""), mood: (row) => (row.connected ? "" : "bad") },
      { title: "Lost", width: "52", num: true, text: (row) => count(row.lost), mood: (row) => (row.lost ? "bad" : "muted") },
      { title: "Late", width: "52", num: true, text: (row) => count(row.late), mood: (row) => (row.late ? "warn" : "muted") },
    ], { select: (key) => select("subscription", key), empty: "no subscriptions yet: plait sub \"price > 100\"", label: "Subscriptions" });
  }

  update(state, selected) {
    const rows = Object.entries(state.subscriptions ?? {}).sort(([, a], [, b]) => b.delivered - a.delivered);
    this.table.update(rows);
    this.table.mark(selected?.kind === "subscription" ? selected.id : null);
    const { subscriptions = 0, exported = 0 } = state.now ?? {};
    const covered = subscriptions ? Math.max(0, 1 - exported / subscriptions) : 0;
    setText(this.meta, subscriptions ? `${count(subscriptions)} in all, ${count(exported)} announced to other brokers: ${percent(covered)} covered` : "");
  }
}

export class Bounds {
  constructor(panel, select) {
    this.meta = find(".meta", panel);
    this.table = new Table(find(".body", panel), [
      { title: "Subscription", text: (row) => `${row.client || "unnamed"} at ${row.at}/${row.number}` },
      { title: "Bound", width: "72", num: true, text: (row) => ms(row.within_ms) },
      { title: "Median", width: "72", num: true, text: (row) => ms(row.p50_ms) },
      { title: "99%", width: "72", num: true, text: (row) => ms(row.p99_ms), mood: (row) => (row.p99_ms > row.within_ms ? "bad" : "") },
      { title: "Kept", width: "58", num: true, text: (row) => percent(row.kept), mood: (row) => (row.kept < 0.999 ? "bad" : "good") },
      { title: "Against its bound", width: "24%", draw: bullet },
    ], { select: (key) => select("subscription", key), limit: 7, empty: "no subscription has a bound: plait sub FILTER --within 50ms", label: "Delay bounds" });
  }

  update(state, selected) {
    const rows = Object.entries(state.subscriptions ?? {}).filter(([, row]) => row.within_ms).map(([key, row]) => [key, { ...row, kept: kept(row) }]);
    rows.sort(([, a], [, b]) => (a.kept ?? 2) - (b.kept ?? 2) || b.delivered - a.delivered);
    this.table.update(rows);
    this.table.mark(selected?.kind === "subscription" ? selected.id : null);
    const missed = rows.filter(([, row]) => row.kept !== null && row.kept < 1).length;
    setText(this.meta, rows.length ? `${rows.length - missed} of ${rows.length} kept so far` : "");
  }
}

/** The share of deliveries that were in time. */
function kept(row) {
  const all = row.delivered + (row.dropped.late ?? 0);
  return all ? 1 - row.late / all : null;
}

/** Median and 99% as bars, the bound as a mark at two thirds. */
function bullet(cell, row) {
  let drawing = cell.firstChild;
  if (!drawing) {
    const bar = (kind, y, height) => svg("rect", { class: kind, x: 0, y, height, width: 0, rx: 1.5 });
    drawing = svg("svg", { class: "bullet", viewBox: "0 0 150 14", preserveAspectRatio: "none", "aria-hidden": "true" }, bar("track", 4, 6), bar("p99", 4, 6), bar("p50", 5, 4), svg("path", { class: "bound", d: "M100 1V13", "vector-effect": "non-scaling-stroke" }));
    put(drawing.firstChild, "width", 150);
    cell.append(drawing);
  }
  const part = (value) => Math.min(150, ((value ?? 0) / row.within_ms) * 100);
  put(drawing.children[1], "width", part(row.p99_ms).toFixed(1));
  put(drawing.children[2], "width", part(row.p50_ms).toFixed(1));
  put(drawing, "data-mood", row.p99_ms > row.within_ms ? "bad" : "calm");
}

export class Slow {
  constructor(panel, select) {
    this.meta = find(".meta", panel);
    this.table = new Table(find(".body", panel), [
      { title: "Client", text: (row) => `${row.client || "unnamed"} at ${row.at}` },
      { title: "Waiting", width: "62", num: true, text: (row) => count(waiting(row)), mood: (row) => (row.slow ? "warn" : "") },
      { title: "Lost", width: "62", num: true, text: (row) => count(row.lost), mood: (row) => (row.lost ? "bad" : "muted") },
    ], { select: (key) => select("subscription", key), limit: 7, empty: "no slow consumers", label: "Slow consumers" });
  }

  update(state) {
    const rows = Object.entries(state.subscriptions ?? {}).filter(([, row]) => row.slow || row.pending || row.dropped.outbox_items || row.dropped.outbox_bytes || row.client_dropped.queue_full);
    rows.sort(([, a], [, b]) => waiting(b) - waiting(a) || b.lost - a.lost);
    this.table.update(rows);
    setText(this.meta, rows.length ? bytes(rows.reduce((sum, [, row]) => sum + row.pending_bytes, 0)) : "");
  }
}

export class ResourcesPanel {
  constructor(panel, select) {
    this.meta = find(".meta", panel);
    this.table = new Table(find(".body", panel), [
      { title: "Broker", text: (row) => row.name },
      { title: "CPU", width: "54", num: true, text: (row) => percent(row.cpu), mood: (row) => (row.cpu > 0.85 ? "bad" : row.cpu > 0.6 ? "warn" : "") },
      { title: "Memory", width: "76", num: true, text: (row) => bytes(row.rss) },
      { title: "Busy", width: "50", num: true, text: (row) => percent(row.busy), mood: (row) => (row.busy > 0.85 ? "bad" : row.busy > 0.6 ? "warn" : "") },
      { title: "Loop", width: "70", num: true, text: (row) => ms(row.lag_ms), mood: (row) => (row.lag_ms > 50 ? "warn" : "") },
      { title: "Files", width: "42", num: true, text: (row) => count(row.fds) },
      { title: "Up", width: "52", num: true, text: (row) => age(Date.now() / 1000 - row.started) },
    ], { select: (key) => select("broker", key), limit: 9, empty: "nothing yet", label: "Resources of the brokers" });
  }

  update(state, selected) {
    const rows = Object.entries(state.brokers ?? {}).filter(([, row]) => row.rss);
    rows.sort(([, a], [, b]) => Math.round((b.cpu ?? 0) * 20) - Math.round((a.cpu ?? 0) * 20) || byText(a.name, b.name));
    this.table.update(rows);
    this.table.mark(selected?.kind === "broker" ? selected.id : null);
    const cpu = rows.reduce((sum, [, row]) => sum + (row.cpu ?? 0), 0);
    const rss = rows.reduce((sum, [, row]) => sum + row.rss, 0);
    setText(this.meta, rows.length ? `${cpu.toFixed(2)} cores, ${bytes(rss)}` : "");
  }
}

export class Security {
  constructor(panel) {
    this.body = find(".body", panel);
    this.meta = find(".meta", panel);
    this.rows = new Map();
    this.list = el("div", { class: "bars" });
    this.none = el("p", { class: "empty" }, "nothing was refused");
    this.seal = el("p", { class: "muted" });
    this.body.append(this.list, this.none, this.seal);
  }

  update(state) {
    const counts = {};
    for (const broker of Object.values(state.brokers ?? {})) {
      for (const [code, n] of Object.entries(broker.refused ?? {})) counts[code] = (counts[code] ?? 0) + n;
      for (const reason of ["not_allowed", "forbidden"]) {
        const n = broker.drops?.[reason];
        if (n) counts[`event ${reason}`] = (counts[`event ${reason}`] ?? 0) + n;
      }
    }
    const found = Object.entries(counts).filter(([, n]) => n).sort((a, b) => b[1] - a[1]).slice(0, 8);
    const most = Math.max(1, ...found.map(([, n]) => n));
    this.list.replaceChildren(...found.flatMap(([code, n]) => [
      el("b", {}, code.replaceAll("_", " ")),
      svg("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("rect", { class: "track", width: 100, height: 6, rx: 2 }), svg("rect", { width: (100 * n) / most, height: 6, rx: 2 })),
      el("span", { class: "num" }, count(n)),
    ]));
    this.list.hidden = !found.length;
    this.none.hidden = found.length > 0;
    setText(this.meta, found.length ? `${count(total(counts))} refused since start` : "");
  }

  /** Show how many of the last events were sealed. */
  sealed(events) {
    const sealed = events.filter((event) => "$sealed" in event.attributes).length;
    setText(this.seal, events.length ? `${sealed} of the last ${events.length} events were sealed` : "");
  }
}
