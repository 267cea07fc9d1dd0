// Building blocks: elements, readable numbers, and a table that updates only changed cells.
// Data of a broker is set with textContent or setAttribute only; nothing is ever parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element. `attributes` with a function as value are listeners; children are elements or text. */
export function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const find = (selector, root = document) => root.querySelector(selector);

/** Set an attribute or text only if it differs: most updates change little. */
export function put(element, name, value) {
  const text = String(value);
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Compare by code unit: collation costs a hundred times as much at its first use. */
export const byText = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

// --- numbers -----------------------------------------------------------------------------------------------------------

export function count(n) {
  if (n === null || n === undefined) return "–";
  if (n >= 1e9) return trim(n / 1e9) + " G";
  if (n >= 1e6) return trim(n / 1e6) + " M";
  if (n >= 1e4) return trim(n / 1e3) + " k";
  if (n >= 100 || Number.isInteger(n)) return String(Math.round(n));
  return n >= 10 ? n.toFixed(1).replace(/\.0$/, "") : n.toFixed(n >= 1 ? 1 : 2).replace(/\.?0+$/, "");
}
const trim = (n) => n.toPrecision(3).replace(/\.?0+$/, "");

export function ms(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1) return Math.round(value * 1000) + " µs";
  if (value >= 10000) return (value / 1000).toFixed(1) + " s";
  return (value >= 100 ? Math.round(value) : value >= 10 ? value.toFixed(1) : value.toFixed(2)) + " ms";
}

export function bytes(n) {
  if (!n) return "0 B";
  const unit = Math.min(3, Math.floor(Math.log2(n) / 10));
  return (n / 2 ** (10 * unit)).toPrecision(3).replace(/\.0+$/, "").replace(/e\+3/, "") + [" B", " KB", " MB", " GB"][unit];
}

/** A share; only exactly 0 and 1 are shown as 0% and 100%. */
export function percent(part) {
  if (part === null || part === undefined) return "–";
  if (part === 0 || part === 1) return part * 100 + "%";
  if (part < 0.001) return "<0.1%";
  if (part > 0.99) return Math.floor(part * 1000) / 10 + "%";
  return part >= 0.1 ? Math.round(part * 100) + "%" : (part * 100).toFixed(1) + "%";
}
/** A time of day. The browser's own formatter takes 50 ms to load. */
export function clock(wall) {
  const time = new Date(wall * 1000);
  return [time.getHours(), time.getMinutes(), time.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
}

export function age(seconds) {
  if (seconds < 120) return Math.max(0, Math.round(seconds)) + " s";
  if (seconds < 7200) return Math.round(seconds / 60) + " min";
  return seconds < 172800 ? Math.round(seconds / 3600) + " h" : Math.round(seconds / 86400) + " d";
}

/** A round step of 1, 2 or 5 times a power of ten, so that about `parts` steps make `most`. */
export function roundStep(most, parts = 4) {
  const rough = most / parts;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5].find((digit) => rough <= digit * power * 1.0001) ?? 10);
}

// --- small drawings -----------------------------------------------------------------------------------------------------

/** A line over time, filled below; null leaves a gap. */
export class Spark {
  constructor(width = 100, height = 22) {
    this.width = width;
    this.height = height;
    this.fill = svg("path", { class: "spark-fill" });
    this.line = svg("path", { class: "spark" });
    this.element = svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" }, this.fill, this.line);
  }
  draw(values, slots = values.length) {
    const most = Math.max(1e-9, ...values.filter((value) => value !== null));
    const step = this.width / Math.max(1, slots - 1);
    const offset = this.width - step * (values.length - 1);
    let path = "";
    values.forEach((value, at) => {
      if (value === null) return;
      path += `${path ? "L" : "M"}${(offset + at * step).toFixed(1)} ${(this.height - 1.5 - (value / most) * (this.height - 4)).toFixed(1)}`;
    });
    put(this.line, "d", path || "M0 0");
    put(this.fill, "d", path ? `${path}L${this.width} ${this.height}L${offset.toFixed(1)} ${this.height}Z` : "M0 0");
  }
}

// --- tables -------------------------------------------------------------------------------------------------------------

/** Rows by key. A column: {title, width, num, text(row) | draw(cell, row), mood(row), mono}. */
export class Table {
  constructor(body, columns, { select = null, limit = 8, empty = "nothing yet", label = "" } = {}) {
    Object.assign(this, { columns, select, limit, full: false, rows: new Map(), selected: null });
    this.head = el("tr", {}, ...columns.map((column) => el("th", { class: column.num ? "num" : null, scope: "col" }, column.title)));
    this.body = el("tbody", { keydown: (event) => this.move(event) });
    const group = el("colgroup", {}, ...columns.map((column) => el("col", column.width ? { width: column.width } : {})));
    this.table = el("table", { "aria-label": label }, group, el("thead", {}, this.head), this.body);
    this.none = el("p", { class: "empty" }, empty);
    this.more = el("button", { class: "more", type: "button", click: () => this.unfold() });
    body.append(this.table, this.none, this.more);
  }

  unfold() {
    this.full = !this.full;
    this.update(this.latest);
  }

  /** `items` are [key, row] in their order. */
  update(items) {
    this.latest = items;
    const shown = this.full ? items : items.slice(0, this.limit);
    this.table.hidden = !items.length;
    this.none.hidden = items.length > 0;
    this.more.hidden = items.length <= this.limit;
    setText(this.more, this.full ? "Show fewer" : `Show all ${items.length}`);
    const keep = new Set(shown.map(([key]) => key));
    for (const [key, line] of this.rows) {
      if (!keep.has(key)) {
        line.remove();
        this.rows.delete(key);
      }
    }
    let before = this.body.firstChild;
    for (const [key, row] of shown) {
      let line = this.rows.get(key);
      if (!line) {
        line = this.line(key);
        this.rows.set(key, line);
      }
      this.fill(line, row);
      if (line === before) before = before.nextSibling;
      else this.body.insertBefore(line, before);
    }
    this.updateTabOrder();
  }

  line(key) {
    const line = el("tr", this.select ? { tabindex: -1, click: () => this.select(key), "aria-selected": "false" } : {});
    line.dataset.key = key;
    for (const column of this.columns) line.append(el("td", { class: [column.num && "num", column.mono && "mono"].filter(Boolean).join(" ") || null, "data-title": column.title }));
    return line;
  }

  fill(line, row) {
    this.columns.forEach((column, at) => {
      const cell = line.children[at];
      if (column.draw) column.draw(cell, row);
      else {
        const text = column.text(row);
        if (cell.content !== text) {
          cell.textContent = cell.content = text;
          if (!column.num) cell.title = text;
        }
      }
      if (column.mood) put(cell, "class", [column.num && "num", column.mono && "mono", column.mood(row)].filter(Boolean).join(" "));
    });
    if (this.select) put(line, "aria-selected", line.dataset.key === this.selected);
  }

  mark(key) {
    this.selected = key;
    for (const line of this.rows.values()) put(line, "aria-selected", line.dataset.key === key);
  }

  /** Put one row into the tab order; arrows move between rows. */
  updateTabOrder() {
    if (!this.select || !this.body.firstChild) return;
    if (!this.body.contains(this.current)) this.current = this.body.firstChild;
    for (const line of this.rows.values()) put(line, "tabindex", line === this.current ? 0 : -1);
  }

  move(event) {
    const line = event.target.closest("tr");
    if (!line || !this.select) return;
    const to = { ArrowDown: line.nextSibling, ArrowUp: line.previousSibling, Home: this.body.firstChild, End: this.body.lastChild }[event.key];
    if (event.key === "Enter" || event.key === " ") this.select(line.dataset.key);
    else if (to) {
      this.current = to;
      this.updateTabOrder();
      to.focus();
    } else return;
    event.preventDefault();
  }
}
