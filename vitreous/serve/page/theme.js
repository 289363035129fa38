/** Dark and light theme, from the system or chosen by the user, and the theme's colours for canvases. */

const KEY = "vitreous-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

/** @returns {"dark" | "light"} */
export function currentTheme() {
  const chosen = document.documentElement.dataset.theme;
  return chosen === "dark" || chosen === "light" ? chosen : system.matches ? "dark" : "light";
}

/** @param {() => void} listener called after the colours have changed */
export function onThemeChange(listener) {
  document.addEventListener("theme", listener);
}

/** Let a button switch the theme. @param {HTMLButtonElement} button */
export function themeButton(button) {
  const label = () => (button.textContent = currentTheme() === "dark" ? "Light" : "Dark");
  button.setAttribute("aria-label", "Change between dark and light");
  button.addEventListener("click", () => {
    const next = currentTheme() === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // Storage is not available: the choice lasts until the page is closed.
    }
    document.dispatchEvent(new Event("theme"));
  });
  system.addEventListener("change", () => document.dispatchEvent(new Event("theme")));
  onThemeChange(label);
  label();
}

const probe = document.createElement("i");
probe.hidden = true;
document.documentElement.append(probe);

/**
 * @param {string} name of a colour in the style sheet
 * @returns {string} the colour for a canvas
 */
export function colour(name) {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

/** Colour scale from low to high: dark violet, orange, pale yellow, in even steps of lightness. */
const HEAT = [
  [20, 11, 54], [66, 10, 104], [120, 28, 109], [174, 48, 92], [221, 81, 58], [246, 125, 21], [252, 181, 25], [250, 235, 130],
];

/**
 * @param {number} share between 0 and 1
 * @returns {[number, number, number]} red, green, blue, to 255
 */
export function heatColour(share) {
  const place = Math.min(1, Math.max(0, share)) * (HEAT.length - 1);
  const below = Math.min(HEAT.length - 2, Math.floor(place));
  const mix = (/** @type {number} */ i) => HEAT[below][i] + (place - below) * (HEAT[below + 1][i] - HEAT[below][i]);
  return [mix(0), mix(1), mix(2)];
}
