// The switches above the board, and the address that keeps them: a link shows what its sender saw.

import { METRICS, WINDOWS } from "./metrics.js";

/** What the address asks for; what is unknown in it falls back to the first choice. */
export function wanted() {
  const asked = new URLSearchParams(location.search);
  return { metric: allowed(asked.get("metric"), METRICS), window: allowed(asked.get("window"), WINDOWS) };
}

function allowed(value, table) {
  return value !== null && Object.hasOwn(table, value) ? value : Object.keys(table)[0];
}

/** Write the choice into the address. */
export function remember({ metric, window }) {
  history.replaceState(null, "", `?${new URLSearchParams({ metric, window })}`);
}

/** Fill a fieldset with one radio button for each choice; `onChange(key)` when a person chooses. */
export function choices(fieldset, table, chosen, onChange) {
  for (const [key, entry] of Object.entries(table)) {
    const label = document.createElement("label");
    const input = document.createElement("input");
    input.type = "radio";
    input.name = fieldset.id;
    input.value = key;
    input.checked = key === chosen;
    input.autocomplete = "off"; // the address says what is chosen, not a former visit
    input.addEventListener("change", () => onChange(key));
    const text = document.createElement("span");
    text.textContent = entry.label ?? entry;
    label.title = entry.meaning ?? "";
    label.append(input, text);
    fieldset.append(label);
  }
}

/** Light or dark: as the system wants it until a person presses the button. */
export function themeSwitch(button, onChange) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const show = (theme) => {
    document.documentElement.dataset.theme = theme;
    onChange();
  };
  const kept = () => localStorage.getItem("theme");
  const present = () => kept() ?? (system.matches ? "dark" : "light");
  system.addEventListener("change", () => show(present()));
  button.addEventListener("click", () => {
    localStorage.setItem("theme", present() === "dark" ? "light" : "dark");
    show(present());
  });
  show(present());
}
