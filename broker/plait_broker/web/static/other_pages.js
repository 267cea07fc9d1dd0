// The pages of other brokers: when the broker of this page dies, the page moves to one that is alive.
//
// A page may read only its own broker. It moves by itself only to a broker on the same host that answers its health
// check; the addresses of brokers elsewhere come from other brokers, so they are offered as links.

import { el } from "./dom.js";

const PATIENCE_MS = 3000; // a broker that restarts is back by then
const ANSWER_MS = 1500;
const LOCAL = new Set(["127.0.0.1", "localhost"]);

/** The addresses of other brokers' pages, nearest first: [name, address]. */
export function otherPages(state) {
  const others = Object.entries(state.brokers ?? {}).filter(([id, one]) => id !== state.about?.me && one.page && one.status !== "gone");
  others.sort(([, a], [, b]) => (a.distance_ms ?? Infinity) - (b.distance_ms ?? Infinity));
  return others.map(([, one]) => [one.name, one.page]).filter(([, page]) => safe(page));
}

export function links(pages) {
  const shown = pages.slice(0, 5).map(([name, page]) => el("a", { href: page, rel: "noreferrer" }, name));
  return shown.flatMap((link, at) => [at ? ", " : " Other pages: ", link]);
}

export class Mover {
  constructor() {
    this.lostAt = 0;
  }

  found() {
    this.lostAt = 0;
  }

  /** Go to another broker's page once this broker has been lost for long enough. */
  async lost(state) {
    this.lostAt ||= Date.now();
    if (Date.now() - this.lostAt < PATIENCE_MS || this.looking || !LOCAL.has(location.hostname)) return;
    this.looking = true;
    const pages = otherPages(state).map(([, page]) => new URL(page)).filter((page) => LOCAL.has(page.hostname) && page.protocol === location.protocol);
    for (const page of pages) {
      page.hostname = location.hostname;
      if (!(await answers(page)) || !this.lostAt) continue;
      page.searchParams.set("instead", state.about?.name ?? "");
      location.assign(page);
      return;
    }
    this.looking = false;
  }
}

/** The broker that this page was opened instead of, if any. */
export function insteadOf() {
  return new URLSearchParams(location.search).get("instead") ?? "";
}

async function answers(page) {
  try {
    await fetch(new URL("/readyz", page), { mode: "no-cors", cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) });
    return true;
  } catch {
    return false;
  }
}

function safe(page) {
  try {
    return ["http:", "https:"].includes(new URL(page).protocol);
  } catch {
    return false;
  }
}
