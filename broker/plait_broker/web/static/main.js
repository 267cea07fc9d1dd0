// The live page: one stream of data; each panel is redrawn when its data changes, at most once a frame.

import { themed, requestToken } from "./chrome.js";
import { clock, el, find, put, setText } from "./dom.js";
import { Feed } from "./feed.js";
import { IncidentsPanel } from "./incidents.js";
import { Inspector } from "./inspector.js";
import { Latency } from "./latency.js";
import { Bounds, Links, ResourcesPanel, Security, Slow, Subscriptions } from "./lists.js";
import { Mover, insteadOf, links as pageLinks, otherPages } from "./other_pages.js";
import { Strip } from "./strip.js";
import { Tail } from "./tail.js";
import { Topology } from "./topology.js";

let selected = null;
let paused = false;
let dirty = new Set();
let due = false;
const mover = new Mover();

const panel = (id) => find(`#${id}`);
const feed = new Feed("/api/v1/overview/stream", changed, connectionChanged, requestToken);

const topology = new Topology(panel("topology"), select);
const inspector = new Inspector(panel("inspector"), (route) => topology.highlight(route), () => select(null));
const strip = new Strip(panel("strip"));
const latency = new Latency(panel("latency"));
const incidents = new IncidentsPanel(panel("incidents"));
const bounds = new Bounds(panel("bounds"), select);
const links = new Links(panel("links"), select);
const resources = new ResourcesPanel(panel("resources"), select);
const subscriptions = new Subscriptions(panel("subscriptions"), select);
const slow = new Slow(panel("slow"), select);
const security = new Security(panel("security"));
const tail = new Tail(panel("tail"), select, (events) => security.sealed(events));

/** The panels, each with the sections that it shows. */
const VIEWS = [
  [["now", "history"], () => strip.update(feed.state, dirty)],
  [["brokers", "links", "now", "about"], () => topology.update(feed.state, selected)],
  [["history"], () => latency.update(feed.state)],
  [["incidents"], () => incidents.update(feed.state)],
  [["links", "brokers"], () => links.update(feed.state, selected)],
  [["subscriptions"], () => bounds.update(feed.state, selected)],
  [["subscriptions", "now"], () => subscriptions.update(feed.state, selected)],
  [["subscriptions"], () => slow.update(feed.state)],
  [["brokers"], () => resources.update(feed.state, selected)],
  [["brokers"], () => security.update(feed.state)],
  [["brokers", "links", "subscriptions"], () => selected && inspector.draw(feed.state)],
];

function changed(sections) {
  for (const section of sections) dirty.add(section);
  if (!due && !paused) {
    due = true;
    requestAnimationFrame(update);
  }
}

function update() {
  due = false;
  performance.clearMeasures("update");
  performance.mark("update-begins");
  for (const [sections, draw] of VIEWS) if (sections.some((section) => dirty.has(section))) draw();
  if (dirty.has("about")) place();
  dirty = new Set();
  performance.measure("update", "update-begins");
}

function redrawAll() {
  changed(new Set(VIEWS.flatMap(([sections]) => sections)));
}

function place() {
  const { name = "", version = "" } = feed.state.about ?? {};
  const instead = insteadOf() && insteadOf() !== name ? `, as ${insteadOf()} does not answer` : "";
  panel("where").replaceChildren("seen from ", el("b", {}, name), version && version !== "unknown" ? `, version ${version}` : "", instead);
}

function select(kind, id) {
  selected = kind === null || (selected?.kind === kind && selected.id === id) ? null : { kind, id };
  tail.mark(selected?.kind === "event" ? selected.id : null);
  inspector.choose(selected, feed.state);
  redrawAll();
  requestAnimationFrame(() => inspector.bringIntoSight());
}

function connectionChanged(state, detail) {
  put(document.body, "data-state", state);
  setText(find("#state span"), state === "live" ? "live" : feed.receivedAt ? "lost" : "connecting");
  const banner = panel("banner");
  banner.hidden = state === "live";
  const name = feed.state.about?.name ?? "The broker";
  if (state === "live") {
    mover.found();
    setText(banner, "");
  } else {
    const shown = feed.receivedAt ? ` The data shown is of ${clock(feed.receivedAt / 1000)}.` : "";
    banner.replaceChildren(`${name}: ${detail}. Reconnecting…${shown}`, ...pageLinks(otherPages(feed.state)));
    mover.lost(feed.state);
  }
  document.title = state === "live" ? `${name} · Plait` : "lost · Plait";
  if (state === "live") tail.refresh();
}

function pause() {
  paused = !paused;
  tail.paused = paused;
  put(panel("pause"), "aria-pressed", paused);
  setText(panel("pause"), paused ? "Paused" : "Pause");
  if (!paused) redrawAll();
}

const switchTheme = themed(() => {
  latency.recolour();
  redrawAll();
});
panel("pause").addEventListener("click", pause);
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input");
  if (event.key === "Escape" && typing) event.target.blur();
  else if (event.key === "Escape") select(null);
  else if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  else if (event.key === "/") panel("filter").focus();
  else if (event.key === "p") pause();
  else if (event.key === "t") switchTheme();
  else return;
  event.preventDefault();
});

feed.run();
