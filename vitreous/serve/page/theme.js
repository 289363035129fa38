// Before anything is painted: the theme that the person has chosen, if any. A plain script, so that it runs first.
try {
  const chosen = localStorage.getItem("vitreous-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage is refused: the system's theme it is.
}
