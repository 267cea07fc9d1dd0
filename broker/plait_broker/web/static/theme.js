// Light or dark, before anything is painted: as chosen here, else as the system has it.
const chosen = localStorage.getItem("plait-theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
