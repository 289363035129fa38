/** Dark or light, as the system has it or as the person wants it; and the theme's colours, for what is drawn on canvas. */

const KEY = "vitreous-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

/** @returns {"dark" | "light"} */
export function theme() {
  const chosen = document.documentElement.dataset.theme;
  return chosen === "dark" || chosen === "light" ? chosen : system.matches ? "dark" : "light";
}

/** @param {() => void} listener called after the colours have changed */
export function onTheme(listener) {
  document.addEventListener("theme", listener);
}

/** @param {HTMLButtonElement} button that changes the theme */
export function themeButton(button) {
  const label = () => (button.textContent = theme() === "dark" ? "Light" : "Dark");
  button.setAttribute("aria-label", "Change between dark and light");
  button.addEventListener("click", () => {
    const wanted = theme() === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = wanted;
    try {
      localStorage.setItem(KEY, wanted);
    } catch {
      // It lasts as long as the page, then.
    }
    document.dispatchEvent(new Event("theme"));
  });
  system.addEventListener("change", () => document.dispatchEvent(new Event("theme")));
  onTheme(label);
  label();
}

const probe = document.createElement("i");
probe.hidden = true;
document.documentElement.append(probe);

/**
 * @param {string} name of a colour in the style sheet
 * @returns {string} as a canvas takes it
 */
export function colour(name) {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

/** Stops of a scale from nothing to much: dark violet over orange to pale yellow, of even steps in lightness. */
const HEAT = [
  [20, 11, 54], [66, 10, 104], [120, 28, 109], [174, 48, 92], [221, 81, 58], [246, 125, 21], [252, 181, 25], [250, 235, 130],
];

/**
 * @param {number} share between 0 and 1
 * @returns {[number, number, number]} red, green, blue, to 255
 */
export function heat(share) {
  const place = Math.min(1, Math.max(0, share)) * (HEAT.length - 1);
  const below = Math.min(HEAT.length - 2, Math.floor(place));
  const mix = (/** @type {number} */ i) => HEAT[below][i] + (place - below) * (HEAT[below + 1][i] - HEAT[below][i]);
  return [mix(0), mix(1), mix(2)];
}
