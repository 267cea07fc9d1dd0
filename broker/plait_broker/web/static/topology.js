// The drawing of the overlay: brokers with their load, links with their delay, and the paths of the selection.

import { count, find, ms, percent, put, setText, svg } from "./dom.js";
import { arrange } from "./layout.js";

const RADIUS = 13;
const LABELS_MAX = 24; // links up to which all are labelled; beyond it only those of the selection
const CROWD = 26; // brokers up to which labels are large
const [LABEL_HALF_WIDTH, LABEL_HALF_HEIGHT, LABEL_GAP] = [21, 5, 4]; // of a link's delay, in pixels

const STOPS = [0.2, 1, 5, 20, 100]; // milliseconds, from the fast colour over the middle one to the slow one

export class Topology {
  constructor(panel, select) {
    this.select = select;
    this.places = new Map();
    this.shape = "";
    this.nodes = new Map();
    this.links = new Map();
    this.meta = find(".meta", panel);
    this.under = svg("g");
    this.over = svg("g");
    this.labels = svg("g");
    this.dots = svg("g", { keydown: (event) => this.keys(event) });
    this.drawing = svg("svg", { role: "group", "aria-label": "Brokers and links", preserveAspectRatio: "xMidYMid meet" }, this.under, this.over, this.labels, this.dots);
    find(".body", panel).append(this.drawing);
    legend(find(".legend", panel));
    new ResizeObserver(([{ contentRect }]) => this.resized(contentRect)).observe(this.drawing);
    this.route = { paths: [], alternates: [] };
  }

  update(state, selected) {
    this.state = state;
    this.selected = selected;
    const brokers = Object.entries(state.brokers ?? {});
    const pairs = paired(state.links ?? {});
    const shape = `${brokers.map(([id]) => id).sort()} ${[...pairs.keys()].sort()}`;
    if (shape !== this.shape) {
      this.shape = shape;
      const ids = brokers.map(([id]) => id).sort();
      const edges = [...pairs.values()].map((pair) => pair.ends).filter((ends) => ends.every((end) => state.brokers[end]));
      this.places = arrange(ids, edges, this.places);
      this.crowded = ids.length > CROWD;
      put(this.drawing, "class", this.crowded ? "crowded" : "");
      this.sync(this.nodes, ids, (id) => this.newNode(id), this.dots);
      this.sync(this.links, [...pairs.keys()], (key) => this.newLink(key), this.under);
      this.place();
    }
    for (const [id, facts] of brokers) this.drawNode(id, facts);
    const delays = pairs.size <= LABELS_MAX;
    for (const [key, pair] of pairs) this.drawLink(key, pair, delays);
    const now = state.now ?? {};
    setText(this.meta, `${now.brokers_up ?? 0} of ${now.brokers ?? 0} brokers, ${now.links_up ?? 0} of ${now.links ?? 0} links up`);
  }

  /** Show paths through the overlay: paths are lists of ids, alternates pairs. */
  highlight(route) {
    this.route = route;
    this.drawRoute();
  }

  // --- places ---------------------------------------------------------------------------------------------------------

  /** The observer reports the size: reading it would force a layout in the middle of an update. */
  resized(box) {
    const [width, height] = [Math.max(box.width, 200), Math.max(box.height, 200)];
    if (this.width === width && this.height === height) return;
    [this.width, this.height] = [width, height];
    this.place();
  }

  place() {
    const { width, height } = this;
    if (!width) return; // the observer reports it soon
    put(this.drawing, "viewBox", `0 0 ${width} ${height}`);
    const spots = [...this.places.values()];
    const reach = (at) => Math.max(0.5, ...spots.map((spot) => Math.abs(spot[at])));
    const [margin, foot] = this.crowded ? [44, 30] : [80, 46];
    const sx = (width / 2 - margin) / reach(0);
    const sy = (height / 2 - foot) / reach(1);
    const most = this.crowded ? 1e9 : 185;
    this.at = new Map([...this.places].map(([id, [x, y]]) => [id, [width / 2 + x * Math.min(sx, most * 1.5), height / 2 - 6 + y * Math.min(sy, most)]]));
    const ends = [...this.links.keys()].map((key) => key.split("|")).filter((pair) => pair.every((id) => this.at.has(id)));
    for (const [id, node] of this.nodes) {
      const [x, y] = this.at.get(id);
      put(node.group, "transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
      const others = ends.filter((pair) => pair.includes(id)).map(([near, far]) => this.at.get(near === id ? far : near));
      const above = towards(others, [x, y], 1) > towards(others, [x, y], -1);
      put(node.name, "y", above ? -node.r - 24 : node.r + 15);
      put(node.rate, "y", above ? -node.r - 11 : node.r + 28);
    }
    for (const [key, link] of this.links) {
      const [near, far] = key.split("|").map((id) => this.at.get(id));
      if (!near || !far) continue;
      const path = `M${near.map((n) => n.toFixed(1))}L${far.map((n) => n.toFixed(1))}`;
      put(link.line, "d", path);
      put(link.hit, "d", path);
      const [across, along] = beside(near, far);
      put(link.label, "x", ((near[0] + far[0]) / 2 + across).toFixed(1));
      put(link.label, "y", ((near[1] + far[1]) / 2 + along + 3.5).toFixed(1));
    }
    this.drawRoute();
  }

  sync(known, keys, make, parent) {
    const kept = new Set(keys);
    for (const [key, one] of known) {
      if (kept.has(key)) continue;
      for (const element of Object.values(one)) element.remove?.();
      known.delete(key);
    }
    for (const key of keys) {
      if (known.has(key)) continue;
      const one = make(key);
      known.set(key, one);
      parent.append(one.group);
    }
  }

  // --- brokers --------------------------------------------------------------------------------------------------------

  newNode(id) {
    const r = this.crowded ? 8 : RADIUS;
    const name = svg("text");
    const rate = svg("text", { class: "rate" });
    const shape = svg("path", { class: "shape" });
    const core = svg("path", { class: "core" });
    const cpu = svg("path", { class: "cpu" });
    const title = svg("title");
    const group = svg("g", { class: "node", tabindex: -1, role: "button", click: () => this.select("broker", id) }, title, shape, core, cpu, name, rate);
    group.dataset.id = id;
    if (!this.nodes.size) put(group, "tabindex", 0);
    return { group, shape, core, cpu, name, rate, title, r };
  }

  drawNode(id, facts) {
    const node = this.nodes.get(id);
    if (!node) return;
    const { r } = node;
    const square = facts.status === "draining";
    const diamond = !square && facts.status !== "ready";
    put(node.group, "data-status", facts.status);
    put(node.group, "data-me", id === this.state.about?.me);
    put(node.group, "data-selected", this.selected?.kind === "broker" && this.selected.id === id);
    put(node.shape, "d", outline(r, square, diamond));
    put(node.core, "d", outline(r * (id === this.state.about?.me ? 0.42 : 0.26), square, diamond));
    const cpu = Math.min(1, facts.cpu ?? 0);
    put(node.cpu, "d", cpu > 0.02 ? arc(r + 4, cpu) : "M0 0");
    put(node.cpu, "data-mood", cpu > 0.85 ? "bad" : cpu > 0.6 ? "warn" : "good");
    setText(node.name, facts.name.length > 18 ? facts.name.slice(0, 17) + "…" : facts.name);
    setText(node.rate, facts.status === "ready" ? `${count(facts.delivered_s ?? 0)}/s` : facts.status);
    const label = `${facts.name}, ${facts.status}, ${count(facts.delivered_s ?? 0)} delivered a second, processor ${percent(facts.cpu)}`;
    setText(node.title, label);
    put(node.group, "aria-label", label);
  }

  /** Arrow keys move to the nearest broker in that direction. */
  keys(event) {
    const from = event.target.closest(".node");
    if (!from) return;
    const id = from.dataset.id;
    if (event.key === "Enter" || event.key === " ") this.select("broker", id);
    else {
      const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [0, 0];
      if (!dx && !dy) return;
      const [x, y] = this.at.get(id);
      const ahead = [...this.at].filter(([other, [ox, oy]]) => other !== id && (ox - x) * dx + (oy - y) * dy > 4);
      const cost = ([, [ox, oy]]) => Math.abs((ox - x) * dx + (oy - y) * dy) + 2.2 * Math.abs((ox - x) * dy + (oy - y) * dx);
      const next = ahead.sort((a, b) => cost(a) - cost(b))[0];
      if (next) {
        put(from, "tabindex", -1);
        const group = this.nodes.get(next[0]).group;
        put(group, "tabindex", 0);
        group.focus();
      }
    }
    event.preventDefault();
  }

  // --- links ----------------------------------------------------------------------------------------------------------

  newLink(key) {
    const line = svg("path", { class: "link" });
    const title = svg("title");
    const hit = svg("path", { class: "link-hit", click: () => this.select("link", key) }, title);
    const label = svg("text", { class: "link-label" });
    this.labels.append(label);
    return { group: svg("g", {}, line, hit), line, hit, label, title };
  }

  drawLink(key, pair, labelled) {
    const link = this.links.get(key);
    if (!link) return;
    const chosen = this.selected?.kind === "link" && this.selected.id === key;
    const beside = this.selected?.kind === "broker" && pair.ends.includes(this.selected.id);
    put(link.line, "data-state", pair.state);
    put(link.line, "stroke", delayColour(pair.delay_ms));
    put(link.line, "stroke-width", (chosen ? 2 : 0) + (this.crowded ? 1.2 : 1.6) + Math.min(5, Math.log10(1 + pair.rate) * (this.crowded ? 0.8 : 1.5)));
    const text = pair.state === "up" ? ms(pair.delay_ms) + (pair.full ? " · full" : "") + (pair.loss ? ` · ${percent(pair.loss)} lost` : "") : pair.state;
    setText(link.label, labelled || chosen || beside ? text : "");
    put(link.label, "visibility", labelled || chosen || beside ? "visible" : "hidden");
    link.label.style.display = chosen || beside ? "inline" : "";
    setText(link.title, `${pair.ends.map((end) => this.state.brokers[end]?.name ?? end).join(" – ")}: ${text}, ${count(pair.rate)} events a second`);
  }

  drawRoute() {
    const line = (ids, kind) => {
      const spots = ids.map((id) => this.at?.get(id)).filter(Boolean);
      return spots.length > 1 ? svg("path", { class: kind, d: "M" + spots.map((spot) => spot.map((n) => n.toFixed(1))).join("L") }) : null;
    };
    const drawn = [...this.route.alternates.map((pair) => line(pair, "alternate")), ...this.route.paths.map((path) => line(path, "route"))];
    this.over.replaceChildren(...drawn.filter(Boolean));
  }
}

/** How many links leave a broker steeply down (way 1) or up (way -1), where its name would be. */
function towards(others, [x, y], way) {
  return others.filter(([ox, oy]) => (oy - y) * way > Math.abs(ox - x) * 0.7).length;
}

/** The offset of a label from its line, far enough that the text does not touch it: always above the line. */
function beside(near, far) {
  const [dx, dy] = [far[0] - near[0], far[1] - near[1]];
  const length = Math.hypot(dx, dy) || 1;
  const side = dx > 0 ? 1 : -1;
  const [across, along] = [(side * dy) / length, (-side * dx) / length];
  const clear = Math.abs(across) * LABEL_HALF_WIDTH + Math.abs(along) * LABEL_HALF_HEIGHT + LABEL_GAP;
  return [across * clear, along * clear];
}

/** The state of a link or direction in a word. One that is full is up: events wait for it. */
export const stateOf = (link) => (link.state === "up" && link.full ? "full" : link.state);

/** Both directions of each link as one. */
export function paired(links) {
  const pairs = new Map();
  for (const link of Object.values(links)) {
    const ends = [link.from, link.to].sort();
    const key = ends.join("|");
    const pair = pairs.get(key) ?? { ends, state: "up", full: false, delay_ms: null, rate: 0, loss: 0, directions: [] };
    pair.directions.push(link);
    if (link.state !== "up") pair.state = pair.state === "down" ? "down" : link.state;
    if (link.delay_ms !== null) pair.delay_ms = Math.max(pair.delay_ms ?? 0, link.delay_ms);
    pair.full ||= link.full === true;
    pair.rate += link.rate ?? 0;
    pair.loss = Math.max(pair.loss, link.loss ?? 0);
    pairs.set(key, pair);
  }
  return pairs;
}

function outline(r, square, diamond) {
  if (square) return `M${-r} ${-r}H${r}V${r}H${-r}Z`;
  if (diamond) return `M0 ${-r * 1.2}L${r * 1.2} 0L0 ${r * 1.2}L${-r * 1.2} 0Z`;
  return `M0 ${-r}A${r} ${r} 0 1 1 0 ${r}A${r} ${r} 0 1 1 0 ${-r}Z`;
}

function arc(r, part) {
  const end = 2 * Math.PI * Math.min(part, 0.999);
  return `M0 ${-r}A${r} ${r} 0 ${part > 0.5 ? 1 : 0} 1 ${(r * Math.sin(end)).toFixed(2)} ${(-r * Math.cos(end)).toFixed(2)}`;
}

/** From blue over grey to orange, which are distinguishable with colour blindness. */
function delayColour(delay) {
  if (delay === null) return "var(--down)";
  const part = Math.min(1, Math.max(0, Math.log(delay / STOPS[0]) / Math.log(STOPS.at(-1) / STOPS[0])));
  const [from, to, share] = part < 0.5 ? ["--fast", "--mid", part * 2] : ["--mid", "--slow", part * 2 - 1];
  return `color-mix(in oklab, var(${to}) ${Math.round(share * 100)}%, var(${from}))`;
}

function legend(footer) {
  const entry = (drawing, text) => {
    const span = document.createElement("span");
    span.append(drawing, text);
    return span;
  };
  const small = (width, ...children) => svg("svg", { width, height: 14, viewBox: `0 0 ${width} 14`, "aria-hidden": "true" }, ...children);
  const bars = STOPS.map((stop, at) => svg("path", { d: `M${at * 18 + 1} 7h16`, stroke: delayColour(stop), "stroke-width": 4 }));
  const dash = svg("path", { class: "link", d: "M2 7h22", stroke: "var(--down)", "stroke-width": 2.5 });
  put(dash, "data-state", "down");
  const mark = (status, square, diamond) => {
    const group = svg("g", { class: "node", transform: "translate(8 7)" }, svg("path", { class: "shape", d: outline(4.6, square, diamond) }));
    put(group, "data-status", status);
    return small(16, group);
  };
  footer.append(
    entry(small(92, ...bars), `${ms(STOPS[0])} … ${ms(STOPS.at(-1))}`),
    entry(small(30, svg("path", { d: "M2 7h24", stroke: "var(--mid)", "stroke-width": 1.6 })), "few events"),
    entry(small(30, svg("path", { d: "M2 7h24", stroke: "var(--mid)", "stroke-width": 6 })), "many"),
    entry(small(26, dash), "down"),
    entry(mark("ready", false, false), "ready"),
    entry(mark("draining", true, false), "draining"),
    entry(mark("silent", false, true), "silent or gone"),
  );
}
