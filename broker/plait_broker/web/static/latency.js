// The heat map of delays: time on the x axis, delay in doubling steps on the y axis, shade by count; with percentiles.

import { clock, el, find, ms, put, setText } from "./dom.js";

const STAGES = [
  ["delivery", "End to end", "from publication to the writing of each delivery"],
  ["matching", "Matching", "from the read that brought an event until it was matched"],
  ["waiting", "Queue", "of deliveries that could not be written at once"],
  ["links", "Links", "of each link between brokers, one way"],
];
const LOWEST = 5; // bits of microseconds: 16 to 32 µs
const HIGHEST = 25; // 17 to 34 s
const LEFT = 52;
const FOOT = 20;
const HEAD = 8;
const STEP_S = 2; // of the history
const TIMES_S = [10, 30, 60, 120, 300];

export class Latency {
  constructor(panel) {
    this.stage = "delivery";
    this.meta = find(".meta", panel);
    this.canvas = el("canvas", { role: "img" });
    find(".body", panel).append(this.canvas);
    this.tabs = STAGES.map(([stage, name, title]) => el("button", { type: "button", role: "tab", title, "aria-selected": stage === this.stage, click: () => this.choose(stage) }, name));
    const list = find(".tabs", panel);
    list.append(...this.tabs);
    list.addEventListener("keydown", (event) => this.keys(event));
    this.size = { width: 0, height: 0 };
    new ResizeObserver(([{ contentRect }]) => {
      this.size = { width: contentRect.width, height: contentRect.height };
      this.draw();
    }).observe(this.canvas);
    this.history = [];
  }

  choose(stage) {
    this.stage = stage;
    STAGES.forEach(([name], at) => {
      put(this.tabs[at], "aria-selected", name === stage);
      put(this.tabs[at], "tabindex", name === stage ? 0 : -1);
    });
    this.draw();
  }

  keys(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const at = (STAGES.findIndex(([stage]) => stage === this.stage) + by + STAGES.length) % STAGES.length;
    this.choose(STAGES[at][0]);
    this.tabs[at].focus();
    event.preventDefault();
  }

  update(state) {
    this.history = Object.values(state.history ?? {});
    this.draw();
  }

  /** Forget the colours of the previous theme. Colours are cached, because reading them costs as much as drawing. */
  recolour() {
    this.palette = null;
  }

  colours() {
    if (!this.palette) {
      const style = getComputedStyle(document.documentElement);
      const names = ["--heat-0", "--heat-1", "--line", "--muted", "--text", "--slow"];
      this.palette = new Map(names.map((name) => [name, style.getPropertyValue(name).trim()]));
      this.font = `11px ${getComputedStyle(this.canvas).fontFamily}`;
    }
    return this.palette;
  }

  draw() {
    const { width, height } = this.size;
    if (!width) return;
    const scale = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * scale) || this.canvas.height !== Math.round(height * scale)) {
      this.canvas.width = Math.round(width * scale);
      this.canvas.height = Math.round(height * scale);
    }
    const pen = this.canvas.getContext("2d");
    const palette = this.colours();
    const colour = (name) => palette.get(name);
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = this.font;
    const columns = this.history.map((entry) => entry[this.stage] ?? {});
    const [low, high] = span(columns);
    const step = Math.max(3, (width - LEFT) / Math.max(60, columns.length));
    const shown = Math.floor((width - LEFT) / step);
    const first = Math.max(0, columns.length - shown);
    const left = width - step * (columns.length - first);
    const tall = (height - FOOT - HEAD) / (high - low + 1);
    const most = Math.max(1, ...columns.map((column) => Math.max(0, ...Object.values(column))));
    const [pale, deep] = [colour("--heat-0"), colour("--heat-1")].map((text) => text.split(",").map(Number));
    this.grid(pen, { width, height, low, high, tall, colour });
    columns.slice(first).forEach((column, at) => {
      for (const [bits, number] of Object.entries(column)) {
        const row = Math.min(high, Math.max(low, Number(bits)));
        const part = 0.18 + 0.82 * (Math.log1p(number) / Math.log1p(most));
        pen.fillStyle = `rgb(${pale.map((n, i) => Math.round(n + (deep[i] - n) * part))})`;
        pen.fillRect(left + at * step, height - FOOT - (row - low + 1) * tall + 0.5, step - 0.6, tall - 1);
      }
    });
    this.lines(pen, { columns: columns.slice(first), left, step, height, low, tall, colour });
    this.times(pen, { first, left, step, width, height, colour });
    this.describe(columns);
  }

  grid(pen, { width, height, low, high, tall, colour }) {
    pen.textAlign = "right";
    this.ticks = roundDelays(low, high);
    for (const us of this.ticks) {
      const y = height - FOOT - (Math.log2(us) - low + 1) * tall;
      pen.fillStyle = colour("--line");
      pen.fillRect(LEFT, Math.round(y), width - LEFT, 1);
      pen.fillStyle = colour("--muted");
      pen.fillText(delay(us), LEFT - 6, y + 4);
    }
  }

  lines(pen, { columns, left, step, height, low, tall, colour }) {
    for (const [fraction, name] of [[0.5, "--text"], [0.99, "--slow"]]) {
      pen.strokeStyle = colour(name);
      pen.lineWidth = 1.5;
      pen.beginPath();
      let drawing = false;
      columns.forEach((column, at) => {
        const where = percentile(column, fraction);
        if (where === null) {
          drawing = false;
          return;
        }
        const y = height - FOOT - (where - low + 1) * tall;
        pen[drawing ? "lineTo" : "moveTo"](left + (at + 0.5) * step, y);
        drawing = true;
      });
      pen.stroke();
    }
  }

  times(pen, { first, left, step, width, height, colour }) {
    pen.fillStyle = colour("--muted");
    pen.textAlign = "center";
    const every = TIMES_S.find((seconds) => (seconds / STEP_S) * step >= 76) ?? TIMES_S.at(-1);
    for (let at = Math.max(1, first); at < this.history.length; at += 1) {
      const [before, now] = [this.history[at - 1].at, this.history[at].at].map((wall) => Math.floor(wall / every));
      const x = left + (at - first + 0.5) * step;
      if (before !== now && x < width - 30 && x > LEFT + 20) pen.fillText(clock(now * every), x, height - 4);
    }
  }

  describe(columns) {
    const all = {};
    for (const column of columns.slice(-15)) for (const [bits, n] of Object.entries(column)) all[bits] = (all[bits] ?? 0) + n;
    const [p50, p99] = [0.5, 0.99].map((fraction) => percentile(all, fraction));
    const value = (bits) => (bits === null ? "–" : ms(2 ** bits / 1000));
    setText(this.meta, p50 === null ? "nothing in the last 30 s" : `last 30 s: median ${value(p50)}, 99% ${value(p99)} (orange line)`);
    put(this.canvas, "aria-label", `${STAGES.find(([stage]) => stage === this.stage)[1]} delay over the last ten minutes. ${this.meta.textContent}`);
  }
}

/** Round delays in microseconds between two powers of two: 1, 2 and 5 of each power of ten, or 1 alone if they are many. */
export function roundDelays(low, high) {
  const digits = high - low > 9 ? [1] : [1, 2, 5];
  const found = [];
  for (let power = 1; power <= 2 ** high; power *= 10) for (const digit of digits) if (digit * power >= 2 ** (low - 1) && digit * power <= 2 ** high) found.push(digit * power);
  return found;
}

const delay = (us) => (us < 1000 ? `${us} µs` : us < 1e6 ? `${us / 1000} ms` : `${us / 1e6} s`);

/** The range of rows with a margin of one, and never so few that noise looks significant. */
function span(columns) {
  const seen = columns.flatMap((column) => Object.keys(column).map(Number));
  const low = Math.max(LOWEST, Math.min(...seen, 9) - 1);
  const high = Math.min(HIGHEST, Math.max(...seen, low + 7) + 1);
  return [low, Math.max(high, low + 7)];
}

/** A percentile in bits, interpolated within its bucket. */
function percentile(column, fraction) {
  const entries = Object.entries(column).map(([bits, n]) => [Number(bits), n]).sort((a, b) => a[0] - b[0]);
  const total = entries.reduce((sum, [, n]) => sum + n, 0);
  if (!total) return null;
  let below = 0;
  for (const [bits, n] of entries) {
    if (below + n >= fraction * total) return bits - 1 + (fraction * total - below) / n;
    below += n;
  }
  return null;
}

