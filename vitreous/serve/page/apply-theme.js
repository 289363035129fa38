// Applies the theme that the user chose before. A plain script: it runs before the first paint.
try {
  const chosen = localStorage.getItem("vitreous-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage is not available: use the system's theme.
}
