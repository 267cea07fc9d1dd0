// Set the theme before the first paint: the chosen one, else that of the system.
const chosen = localStorage.getItem("plait-theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
