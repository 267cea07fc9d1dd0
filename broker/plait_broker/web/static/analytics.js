// The analytics page: what recorded telemetry says over hours and days, from the tables that `plait analyze` writes.

import { themed, wantToken } from "./chrome.js";
import { el, find } from "./dom.js";
import { ask } from "./feed.js";

async function show() {
  const main = find("#main");
  themed(() => {});
  try {
    const said = await ask("/api/v1/analytics");
    main.replaceChildren(el("section", { class: "panel" }, el("header", {}, el("h2", {}, said.hint ?? ""))));
  } catch (error) {
    main.replaceChildren(el("section", { class: "panel" }, el("p", { class: "empty" }, error.message)));
  }
}

show();
export { wantToken };
