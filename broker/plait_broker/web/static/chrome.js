// Shared by both pages: the theme, and the dialog for a token.

import { find } from "./dom.js";

export function themed(changed) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const turn = () => {
    const root = document.documentElement;
    const now = root.dataset.theme ?? (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    localStorage.setItem("plait-theme", root.dataset.theme);
    changed();
  };
  find("#theme").addEventListener("click", turn);
  dark.addEventListener("change", changed);
  return turn;
}

/** Show the dialog until a token is entered; return the token. */
export function requestToken() {
  const dialog = find("#token");
  const box = find("input", dialog);
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      if (box.value) resolve(box.value.trim());
      else dialog.showModal();
    });
    if (!dialog.open) dialog.showModal();
  });
}
