// Details of the selection: a broker, a link, a subscription with its trees, an event with its path.

import { getJson } from "./feed.js";
import { age, bytes, count, el, find, ms, percent, setText } from "./dom.js";
import { paired, stateOf } from "./topology.js";

const NOTHING = { paths: [], alternates: [] };

export class Inspector {
  constructor(panel, highlight, clear) {
    Object.assign(this, { highlight, selected: null, answer: null, turn: 0 });
    this.title = find("h2", panel);
    this.body = find(".body", panel);
    this.button = find("#clear");
    this.button.addEventListener("click", clear);
    this.panel = panel;
    this.place = panel.parentElement; // keeps the panel's place while it is a drawer
    new IntersectionObserver(([entry]) => {
      this.inPlace = entry.intersectionRatio > 0.5;
      this.bringIntoSight();
    }, { threshold: [0.5] }).observe(this.place);
    this.draw({});
  }

  async choose(selected, state) {
    const turn = (this.turn += 1);
    Object.assign(this, { selected, answer: null, shown: "", moved: true });
    this.button.hidden = !selected;
    this.highlight(NOTHING);
    this.draw(state);
    const path = queryPath(selected, state);
    if (!path) return;
    try {
      const answer = await getJson(path);
      if (turn !== this.turn) return;
      this.answer = answer;
      this.highlight(selected.kind === "event" ? passed(answer) : trees(answer));
    } catch (error) {
      if (turn === this.turn) this.answer = { error: error.message };
    }
    if (turn === this.turn) this.draw(state);
  }

  /** Show the details where they are seen: in their place, or over the page if that is scrolled away. */
  bringIntoSight() {
    const drawer = Boolean(this.selected) && !this.inPlace;
    const opens = drawer && !this.panel.classList.contains("drawer");
    if (opens) this.place.style.minHeight = `${this.place.offsetHeight}px`; // so that nothing below moves
    this.panel.classList.toggle("drawer", drawer);
    if (!drawer) {
      this.place.style.minHeight = "";
      return;
    }
    const chosen = find('#main [aria-selected="true"]:not([role="tab"])');
    if (!chosen || !(opens || this.moved)) return;
    this.moved = false;
    const row = chosen.getBoundingClientRect();
    this.panel.classList.toggle("left", row.left + row.width / 2 > innerWidth / 2);
    const sheet = this.panel.getBoundingClientRect();
    if (sheet.width > 0.9 * innerWidth && row.bottom > sheet.top) scrollBy({ top: row.bottom - sheet.top + 8 });
  }

  /** Redraw only if the content has changed. */
  draw(state) {
    const { kind, id } = this.selected ?? { kind: "" };
    const [title, parts] = { "": () => guide(), broker: () => broker(state, id), link: () => link(state, id), subscription: () => subscription(state, id, this.answer), event: () => event(state, id, this.answer) }[kind]();
    setText(this.title, title);
    const text = JSON.stringify(parts.map((part) => part.outerHTML));
    if (text === this.shown) return;
    this.shown = text;
    this.body.replaceChildren(...parts);
  }
}

function queryPath(selected, state) {
  if (selected?.kind === "event") return `/api/v1/event?${new URLSearchParams({ event: selected.id })}`;
  const row = selected?.kind === "subscription" && state.subscriptions?.[selected.id];
  return row ? `/api/v1/tree?${new URLSearchParams({ at: row.broker, filter: row.filter })}` : "";
}

const trees = (answer) => ({ paths: answer.roots.map((root) => root.path), alternates: answer.alternates });

const passed = (answer) => ({ paths: answer.brokers.filter((one) => one.seen?.path).map((one) => [...one.seen.path, one.id]), alternates: [] });

function facts(pairs) {
  return el("dl", { class: "facts" }, ...pairs.filter(([, value]) => value !== null && value !== "").flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value instanceof Node ? value : String(value))]));
}

function guide() {
  return ["Selected", [
    el("p", { class: "muted" }, "Select a broker or a link in the drawing, a subscription to see its trees, or an event to see its path."),
    facts([["Tab, arrows", "move through brokers and rows"], ["Enter", "select"], ["Esc", "clear the selection"], ["/", "try a filter on the last events"], ["p", "pause the page"], ["t", "light or dark"]]),
  ]];
}

const name = (state, id) => state.brokers?.[id]?.name ?? id;

function broker(state, id) {
  const one = state.brokers?.[id];
  if (!one) return ["Broker", [el("p", { class: "empty" }, "it no longer exists")]];
  const drops = Object.entries(one.drops ?? {}).filter(([, n]) => n).map(([reason, n]) => `${reason} ${count(n)}`).join(", ");
  return ["Broker", [
    el("p", { class: "what" }, one.name),
    facts([
      ["State", one.status + (id === state.about?.me ? ", serves this page" : "")],
      ["Id", el("span", { class: "mono" }, id)],
      ["Distance", one.distance_ms === null ? "out of reach" : id === state.about?.me ? "" : ms(one.distance_ms)],
      ["Published", `${count(one.published_s ?? 0)}/s`], ["Delivered", `${count(one.delivered_s ?? 0)}/s`], ["Forwarded", `${count(one.forwarded_s ?? 0)}/s`],
      ["Bytes", `${bytes(one.bytes_in_s)}/s in, ${bytes(one.bytes_out_s)}/s out`],
      ["Delay", `median ${ms(one.p50_ms)}, 99% ${ms(one.p99_ms)}`],
      ["Clients", `${count(one.clients)} with ${count(one.subscriptions)} subscriptions, ${count(one.advertisements)} advertisements`],
      ["Covering", one.subscriptions ? `${count(one.exported)} of ${count(one.subscriptions)} filters announced to others` : ""],
      ["Table", `${count(one.table)} filters`],
      ["Waiting", one.pending ? `${count(one.pending)} deliveries, ${bytes(one.pending_bytes)}` : "nothing"],
      ["Unconfirmed", count(one.awaiting)],
      ["Dropped here", drops || "nothing"],
      ["Process", `${percent(one.cpu)} of a core, ${bytes(one.rss)}, loop ${percent(one.busy)} busy and ${ms(one.lag_ms)} late, up ${age(Date.now() / 1000 - one.started)}`],
    ]),
  ]];
}

function link(state, key) {
  const pair = paired(state.links ?? {}).get(key);
  if (!pair) return ["Link", [el("p", { class: "empty" }, "it no longer exists")]];
  return ["Link", [
    el("p", { class: "what" }, pair.ends.map((end) => name(state, end)).join(" – ")),
    ...pair.directions.flatMap((one) => [
      el("h3", {}, `${name(state, one.from)} to ${name(state, one.to)}`),
      facts([["State", stateOf(one)], ["Delay", ms(one.delay_ms)], ["Jitter", ms(one.jitter_ms)], ["Loss", `${percent(one.loss)} of pings`], ["Events", `${count(one.rate ?? 0)}/s, ${count(one.events ?? 0)} in all`], ["Waiting", bytes(one.pending_bytes) + (typeof one.oldest_s === "number" ? `, the oldest for ${ms(one.oldest_s * 1000)}` : "")], ["Carries", typeof one.capacity === "number" ? `${bytes(one.capacity)}/s, ${percent(one.utilisation)} used` : "not full so far"]]),
    ]),
  ]];
}

function subscription(state, key, answer) {
  const row = state.subscriptions?.[key];
  if (!row) return ["Subscription", [el("p", { class: "empty" }, "it has ended, or is not among those shown")]];
  const reasons = (counts) => Object.entries(counts).map(([reason, n]) => `${reason} ${count(n)}`).join(", ");
  return ["Subscription", [
    el("p", { class: "what mono" }, row.filter),
    facts([
      ["Client", `${row.client || "unnamed"}, at ${row.at}/${row.number}${row.connected ? "" : ", away"}`],
      ["Durable", row.durable ? `${row.durable}, ${row.connected ? "held" : row.seen_s === null ? "no client seen" : `last held ${age(row.seen_s)} ago`}` : ""],
      ["Delivered", count(row.delivered)], ["Dropped", reasons(row.dropped) || "nothing"], ["Late", row.within_ms ? count(row.late) : ""],
      ["Bound", row.within_ms ? `${ms(row.within_ms)}; median ${ms(row.p50_ms)}, 99% ${ms(row.p99_ms)}` : "none requested"],
      ["Waiting", (row.pending ? `${count(row.pending)}, ${bytes(row.pending_bytes)}${row.oldest_s === null ? "" : `, the oldest ${age(row.oldest_s)} old`}` : "nothing") + (row.counted ? "" : ", still counting")],
      ["Handed out", row.handed_out === null ? "not reported" : count(row.handed_out)],
      ["In its client", row.client_waiting === null ? "not reported" : `${count(row.client_waiting)} waiting`],
      ["Dropped there", row.handed_out === null ? "not reported" : reasons(row.client_dropped) || "nothing"],
    ]),
    el("h3", {}, "Trees"),
    ...treeList(state, row, answer),
  ]];
}

function treeList(state, row, answer) {
  if (!answer) return [el("p", { class: "muted" }, "loading…")];
  if (answer.error) return [el("p", { class: "bad" }, answer.error)];
  if (!answer.roots.length) return [el("p", { class: "muted" }, "no publisher advertises matching events yet")];
  return answer.roots.map((root) => {
    const tight = row.within_ms && root.delay_ms > row.within_ms;
    return el("div", { class: "way" }, el("b", {}, root.path.length > 1 ? root.path.map((id) => name(state, id)).join(" → ") : root.path.length ? `${root.name} itself` : `${root.name}: unreachable`),
      " ", el("span", { class: tight ? "bad" : "" }, root.path.length > 1 ? ms(root.delay_ms) : ""),
      el("span", { class: "muted mono" }, root.offers.join("   ") + (root.offers_total > root.offers.length ? ` and ${root.offers_total - root.offers.length} more` : "")));
  });
}

function event(state, id, answer) {
  const head = el("p", { class: "what mono" }, id);
  if (!answer) return ["Event", [head, el("p", { class: "muted" }, "querying all brokers…")]];
  if (answer.error) return ["Event", [head, el("p", { class: "bad" }, answer.error)]];
  const seen = answer.brokers.filter((one) => one.seen).sort((a, b) => (a.seen.delay_ms ?? -1) - (b.seen.delay_ms ?? -1));
  if (!seen.length) return ["Event", [head, el("p", { class: "empty" }, "no broker remembers it any more")]];
  const attributes = Object.entries(seen[0].event?.attributes ?? {});
  return ["Event", [
    head,
    facts(attributes.map(([key, value]) => [key, el("span", { class: "mono" }, typeof value === "string" ? value : JSON.stringify(value))])),
    el("h3", {}, "Path"),
    ...seen.flatMap((one) => steps(state, one)),
    ...answer.brokers.filter((one) => !one.seen).flatMap((one) => drops(state, one)),
    answer.silent.length ? el("p", { class: "muted" }, `did not answer: ${answer.silent.join(", ")}`) : el("p"),
  ]];
}

function steps(state, one) {
  const { seen } = one;
  const arrival = seen.as === "published"
    ? `published at ${one.broker}, for ${seen.for.length ? seen.for.map((home) => name(state, home)).join(", ") : "no other broker"}`
    : `reached ${one.broker} after ${ms(seen.delay_ms)}, by ${seen.path.map((broker) => name(state, broker)).join(" → ")}`;
  const parties = (one.parties ?? []).map((party) => {
    const detail = party.state === "delivered" ? ` after ${ms(party.delay_ms)}${party.waited_ms ? `, ${ms(party.waited_ms)} of it in the queue` : ""}` : party.reason ? `: ${party.reason}` : "";
    return el("div", { class: party.state === "dropped" ? "step lost" : "step" }, `${party.state.replaceAll("_", " ")} ${party.client ? `to ${party.client} ` : ""}(${one.broker}/${party.subscription})${detail}`, el("div", { class: "why mono" }, party.filter));
  });
  return [el("div", { class: "step" }, arrival), ...parties, ...drops(state, one)];
}

const drops = (state, one) => one.drops.map((drop) => el("div", { class: "step lost" }, `dropped at ${one.broker}: ${drop.reason}${drop.for ? `, for ${name(state, drop.for)}` : drop.subscription ? `, for ${one.broker}/${drop.subscription}` : ""}`));
