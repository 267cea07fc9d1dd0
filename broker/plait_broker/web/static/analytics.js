// The analytics page: recorded telemetry over hours and days, from the tables that `plait analyze` writes.

import { themed, requestToken } from "./chrome.js";
import { bytes, count, el, find, ms, percent, put, roundStep, setText, svg, Table } from "./dom.js";
import { getJson } from "./feed.js";

const TABLES = ["brokers", "subscriptions", "selectivity", "flows", "similarity", "incidents", "journeys", "links"];
const RANGES = [["1 h", 3600], ["24 h", 86400], ["7 d", 604800], ["all", Infinity]];
const REFRESH_MS = 5000;
const COLOURS = ["--accent", "--slow", "--good", "--bad"];

let tables = {};
let range = Infinity;
let names = new Map();
let shown = null;

async function load(path) {
  for (;;) {
    try {
      return await getJson(path);
    } catch (error) {
      if (!error.message.includes("token")) throw error;
      sessionStorage.setItem("plait-token", await requestToken());
    }
  }
}

async function begin() {
  themed(draw);
  for (;;) {
    await refresh();
    await new Promise((resolve) => setTimeout(resolve, REFRESH_MS));
  }
}

/** Load the tables if they have changed. */
async function refresh() {
  const main = find("#main");
  try {
    const index = await load("/api/v1/analytics");
    const version = JSON.stringify([index.digest, index.records]);
    if (version === shown) return;
    if (!Object.keys(index.tables).length) {
      main.replaceChildren(empty(index.hint));
      return;
    }
    const found = await Promise.all(TABLES.filter((name) => index.tables[name]).map(async (name) => [name, objects(await load(`/api/v1/analytics/${name}`))]));
    tables = Object.fromEntries(found);
    names = new Map((tables.brokers ?? []).map((row) => [row.broker, row.broker_name || row.broker]));
    setText(find("#where"), `${count(index.records)} records, windows of ${index.window_us / 1e6} s, by ${index.engine}`);
    shown = version;
    draw();
  } catch (error) {
    if (shown === null) main.replaceChildren(panel("Analytics", "", el("p", { class: "bad" }, error.message)));
  }
}

function empty(hint) {
  const commands = hint.split("`").map((part, at) => (at % 2 ? el("code", { class: "mono" }, part) : part));
  return panel("No tables yet", "", el("p", { class: "what" }, "This page shows recorded telemetry over hours and days."), el("p", {}, "To fill it, ", ...commands, "."));
}

/** Rows as objects, each with its window in seconds. */
function objects(table) {
  const columns = table.columns.map((column) => column.name);
  return table.rows.map((row) => {
    const found = Object.fromEntries(columns.map((name, at) => [name, row[at]]));
    found.at = Date.parse(found.window) / 1000;
    return found;
  });
}

function within(rows) {
  const newest = Math.max(...Object.values(tables).flat().map((row) => row.at).filter(Number.isFinite));
  return (rows ?? []).filter((row) => !(row.at < newest - range));
}

function draw() {
  const main = find("#main");
  if (!Object.keys(tables).length) return;
  main.replaceChildren(ranges(), history(), delays(), journeys(), regionalism(), flows(), similarity(), incidents(), links(), subscriptions());
}

function panel(title, kind, ...parts) {
  return el("section", { class: `panel ${kind}`, "aria-label": title }, el("header", {}, el("h2", {}, title)), el("div", { class: "body" }, ...parts));
}

function ranges() {
  const buttons = RANGES.map(([name, seconds]) => el("button", { type: "button", "aria-pressed": range === seconds, click: () => ((range = seconds), draw()) }, name));
  return el("div", { class: "ranges", role: "group", "aria-label": "Of the newest" }, ...buttons);
}

// --- charts -------------------------------------------------------------------------------------------------------------

/** Lines over time: `series` are [name, Map from time to value]. */
function chart(series, shown) {
  const times = [...new Set(series.flatMap(([, values]) => [...values.keys()]))].sort((a, b) => a - b);
  if (!times.length) return el("p", { class: "empty" }, "nothing in this time");
  const [width, height, left, foot] = [640, 220, 62, 20];
  const greatest = Math.max(1e-9, ...series.flatMap(([, values]) => [...values.values()].filter((v) => v !== null)));
  const step = roundStep(greatest);
  const steps = Math.ceil(greatest / step - 1e-9);
  const most = step * steps;
  const x = (time) => left + ((width - left - 8) * (time - times[0])) / Math.max(1, times.at(-1) - times[0]);
  const y = (value) => 8 + (height - foot - 8) * (1 - value / most);
  const drawing = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": series.map(([name]) => name).join(", ") });
  for (let at = 0; at <= steps; at += 1) {
    const value = Number((at * step).toPrecision(12));
    drawing.append(svg("path", { class: "rule", d: `M${left} ${y(value)}H${width - 8}` }), svg("text", { class: "tick value", x: left - 6, y: y(value) + 3.5, "text-anchor": "end" }, shown(value)));
  }
  for (const time of roundTimes(times[0], times.at(-1))) {
    const part = (time - times[0]) / Math.max(1, times.at(-1) - times[0]);
    drawing.append(svg("text", { class: "tick time", x: x(time), y: height - 5, "text-anchor": part < 0.05 ? "start" : part > 0.95 ? "end" : "middle" }, moment(time, times.at(-1) - times[0])));
  }
  const legend = el("div", { class: "legend" });
  series.forEach(([name, values], at) => {
    const path = [...values].sort((a, b) => a[0] - b[0]).filter(([, v]) => v !== null).map(([time, v], n) => `${n ? "L" : "M"}${x(time).toFixed(1)} ${y(v).toFixed(1)}`).join("");
    const colour = `var(${COLOURS[at % COLOURS.length]})`;
    const dash = ["", "6 3", "2 3", "8 3 2 3"][at % 4];
    drawing.append(svg("path", { class: "series", d: path || "M0 0", stroke: colour, "stroke-dasharray": dash }));
    if (values.size === 1) drawing.append(svg("circle", { cx: x(times[0]), cy: y([...values.values()][0] ?? 0), r: 3, fill: colour }));
    legend.append(el("span", {}, svg("svg", { width: 26, height: 10 }, svg("path", { class: "series", d: "M1 5H25", stroke: colour, "stroke-dasharray": dash })), name));
  });
  return el("div", {}, drawing, legend);
}

const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

/** Round times of the local clock between two times, at most six. */
function roundTimes(first, last) {
  const step = TIME_STEPS.find((one) => (last - first) / one <= 5) ?? Math.ceil((last - first) / 5 / 604800) * 604800;
  const zone = new Date(first * 1000).getTimezoneOffset() * 60;
  const found = [];
  for (let time = Math.ceil((first - zone) / step) * step + zone; time <= last; time += step) found.push(time);
  return found.length ? found : [first];
}

function moment(time, span) {
  const when = new Date(time * 1000);
  if (span > 2 * 86400) return when.toLocaleDateString([], { day: "numeric", month: "short" });
  const parts = [when.getHours(), when.getMinutes(), ...(span < 300 ? [when.getSeconds()] : [])];
  return parts.map((part) => String(part).padStart(2, "0")).join(":");
}

function summed(rows, name) {
  const found = new Map();
  for (const row of rows) found.set(row.at, (found.get(row.at) ?? 0) + (row[name] ?? 0));
  return found;
}

/** The mean over the rows of a window, weighted by deliveries. */
function weighted(rows, name, weight) {
  const found = new Map();
  for (const row of rows) {
    if (row[name] === null || !row[weight]) continue;
    const [sum, all] = found.get(row.at) ?? [0, 0];
    found.set(row.at, [sum + row[name] * row[weight], all + row[weight]]);
  }
  return new Map([...found].map(([at, [sum, all]]) => [at, sum / all / 1000]));
}

// --- panels -------------------------------------------------------------------------------------------------------------

function history() {
  const rows = within(tables.brokers);
  return panel("Events a window", "half", chart(["published", "delivered", "forwarded", "dropped"].map((name) => [name, summed(rows, name)]), count));
}

function delays() {
  const rows = within(tables.subscriptions);
  return panel("Delay of deliveries", "half", chart([["p50_us", "median"], ["p90_us", "90%"], ["p99_us", "99%"]].map(([name, label]) => [label, weighted(rows, name, "delivered")]), ms));
}

function journeys() {
  const rows = within(tables.journeys);
  const all = (name) => rows.reduce((sum, row) => sum + (row[name] ?? 0), 0);
  const fact = (name, value, bad) => el("div", { class: "stat", "data-mood": bad ? "bad" : "calm" }, el("dt", {}, name), el("dd", {}, value));
  const section = panel("End to end", "");
  const strip = el("div", { class: "strip" }, fact("Events", count(all("events"))), fact("Deliveries due", count(all("expected"))), fact("Delivered", count(all("delivered"))), fact("Lost with a reason", count(all("lost") + all("lost_homes")), all("lost") + all("lost_homes")), fact("Lost without a known reason", count(all("missing") + all("missing_homes")), all("missing") + all("missing_homes")), fact("Delivered twice", count(all("duplicates")), all("duplicates")));
  find(".body", section).append(strip);
  return section;
}

function listed(title, kind, rows, columns, none) {
  const section = panel(title, kind);
  const table = new Table(find(".body", section), columns, { limit: 10, empty: none, label: title });
  table.update(rows.map((row, at) => [String(at), row]));
  return section;
}

const brokerName = (id) => names.get(id) ?? id;

function grouped(rows, keys, sums) {
  const found = new Map();
  for (const row of rows) {
    const key = keys.map((name) => row[name]).join(" ");
    const known = found.get(key) ?? Object.fromEntries(keys.map((name) => [name, row[name]]));
    for (const name of sums) known[name] = (known[name] ?? 0) + (row[name] ?? 0);
    found.set(key, Object.assign(known, { last: row }));
  }
  return [...found.values()];
}

function regionalism() {
  const rows = grouped(within(tables.selectivity), ["broker"], ["published", "wanted", "wanted_here", "wanted_here_only", "copies"]);
  return listed("Regionalism", "half", rows.sort((a, b) => b.published - a.published), [
    { title: "Broker", text: (row) => brokerName(row.broker) },
    { title: "Published", width: "76", num: true, text: (row) => count(row.published) },
    { title: "Matched", width: "64", num: true, text: (row) => percent(row.published ? row.wanted / row.published : null) },
    { title: "Stays here", width: "80", num: true, text: (row) => percent(row.wanted ? row.wanted_here_only / row.wanted : null) },
    { title: "Brokers reached", width: "110", num: true, text: (row) => (row.wanted ? (row.copies / row.wanted).toFixed(2) : "–") },
  ], "nothing was published");
}

function flows() {
  const rows = grouped(within(tables.flows), ["source", "destination"], ["events"]);
  const ends = [...new Set(rows.flatMap((row) => [row.source, row.destination]))].sort((a, b) => brokerName(a).localeCompare(brokerName(b)));
  if (!ends.length) return panel("Flows between brokers", "half", el("p", { class: "empty" }, "no events between brokers"));
  const most = Math.max(...rows.map((row) => row.events));
  const size = Math.min(34, 520 / ends.length);
  const drawing = svg("svg", { class: "matrix", width: 110 + ends.length * size, viewBox: `0 0 ${110 + ends.length * size} ${ends.length * size + 70}`, role: "img", "aria-label": "Events from publishers' brokers (rows) to subscribers' brokers (columns)" });
  ends.forEach((end, at) => {
    drawing.append(svg("text", { class: "tick", x: 104, y: at * size + size / 2 + 4, "text-anchor": "end" }, brokerName(end).slice(0, 16)));
    drawing.append(svg("text", { class: "tick", transform: `translate(${110 + at * size + size / 2 + 3} ${ends.length * size + 8}) rotate(60)` }, brokerName(end).slice(0, 10)));
  });
  for (const row of rows) {
    const [x, y] = [ends.indexOf(row.destination), ends.indexOf(row.source)];
    const cell = svg("rect", { x: 110 + x * size, y: y * size, width: size - 1.5, height: size - 1.5, rx: 2, fill: "var(--accent)", "fill-opacity": (0.12 + 0.88 * (row.events / most)).toFixed(2) });
    cell.append(svg("title", {}, `${brokerName(row.source)} to ${brokerName(row.destination)}: ${count(row.events)} events`));
    drawing.append(cell);
  }
  return panel("Flows between brokers", "half", drawing, el("p", { class: "muted" }, `from rows to columns; the darkest is ${count(most)} events`));
}

function similarity() {
  const pairs = grouped(within(tables.similarity), ["broker", "subscription", "other_broker", "other"], ["shared", "either"]);
  const filters = new Map((tables.subscriptions ?? []).map((row) => [`${row.broker} ${row.subscription}`, row.filter]));
  const filter = (broker, number) => filters.get(`${broker} ${number}`) ?? `${brokerName(broker)}/${number}`;
  return listed("Subscriptions that match the same events", "half", pairs.sort((a, b) => b.shared / b.either - a.shared / a.either), [
    { title: "One", mono: true, text: (row) => filter(row.broker, row.subscription) },
    { title: "Other", mono: true, text: (row) => filter(row.other_broker, row.other) },
    { title: "Shared", width: "66", num: true, text: (row) => count(row.shared) },
    { title: "Similarity", width: "72", num: true, text: (row) => percent(row.shared / row.either) },
  ], "no similar subscriptions");
}

function incidents() {
  return listed("Incidents", "half", within(tables.incidents).sort((a, b) => b.at - a.at), [
    { title: "When", width: "128", text: (row) => new Date(row.at * 1000).toLocaleString([], { hour12: false, dateStyle: "short", timeStyle: "short" }) },
    { title: "What", text: (row) => `${row.entity} ${brokerName(row.broker)}${row.subject ? ` ${brokerName(row.subject)}` : ""}` },
    { title: "Measure", width: "110", text: (row) => row.measure },
    { title: "Is", width: "66", num: true, text: (row) => count(row.value), mood: () => "warn" },
    { title: "Usually", width: "66", num: true, text: (row) => count(row.usual) },
  ], "no incidents");
}

function links() {
  const rows = within(tables.links);
  const found = grouped(rows, ["broker", "neighbour"], ["copies", "bytes", "samples", "samples_full", "pings_missing"]);
  return listed("Links", "half", found.sort((a, b) => b.copies - a.copies), [
    { title: "Link", text: (row) => `${brokerName(row.broker)} → ${brokerName(row.neighbour)}` },
    { title: "Copies", width: "66", num: true, text: (row) => count(row.copies) },
    { title: "Bytes", width: "66", num: true, text: (row) => bytes(row.bytes) },
    { title: "Full", width: "54", num: true, text: (row) => percent(row.samples ? row.samples_full / row.samples : null), mood: (row) => (row.samples_full ? "warn" : "") },
    { title: "Median", width: "70", num: true, text: (row) => ms(us(row.last.p50_us)) },
    { title: "99%", width: "70", num: true, text: (row) => ms(us(row.last.p99_us)) },
  ], "no links");
}

function subscriptions() {
  const rows = grouped(within(tables.subscriptions), ["broker", "subscription"], ["matched", "delivered", "on_time", "late"]);
  return listed("Subscriptions", "half", rows.sort((a, b) => b.delivered - a.delivered), [
    { title: "Client", width: "20%", text: (row) => row.last.client || "unnamed" },
    { title: "Filter", mono: true, text: (row) => row.last.filter || `${brokerName(row.broker)}/${row.subscription}` },
    { title: "Due", width: "62", num: true, text: (row) => count(row.matched) },
    { title: "On time", width: "64", num: true, text: (row) => percent(row.matched ? row.on_time / row.matched : null), mood: (row) => (row.on_time < row.matched ? "warn" : "good") },
    { title: "99%", width: "70", num: true, text: (row) => ms(us(row.last.p99_us)) },
  ], "no subscriptions");
}

const us = (value) => (value === null || value === undefined ? null : value / 1000);

begin();
put(document.body, "data-page", "analytics");
