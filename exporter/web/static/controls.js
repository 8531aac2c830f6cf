// The switches above the board, and the address that keeps them: a link shows what its sender saw.

import { node } from "./dom.js";
import { METRICS, WINDOWS } from "./metrics.js";

const TABLES = { metric: METRICS, window: WINDOWS };

/** What the address asks for; what is unknown in it falls back to the first choice. */
export function wanted() {
  const asked = new URLSearchParams(location.search);
  const allowed = ([name, table]) => {
    const value = asked.get(name) ?? "";
    return [name, Object.hasOwn(table, value) ? value : Object.keys(table)[0]];
  };
  return Object.fromEntries(Object.entries(TABLES).map(allowed));
}

/** Write the choice into the address. */
export function remember(choice) {
  history.replaceState(null, "", `?${new URLSearchParams(choice)}`);
}

/** Fill a fieldset, whose id names its choice, with radio buttons; `onChange()` on a new choice. */
export function offer(fieldset, choice, onChange) {
  const name = fieldset.id;
  for (const [value, entry] of Object.entries(TABLES[name])) {
    const input = node("input");
    // The address says what is chosen, not a former visit.
    Object.assign(input, { type: "radio", name, value, checked: value === choice[name], autocomplete: "off" });
    input.addEventListener("change", () => {
      choice[name] = value;
      onChange();
    });
    const label = node("label");
    label.title = entry.meaning ?? "";
    label.append(input, node("span", entry.label ?? entry));
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
  const storage = allowedStorage();
  const kept = () => storage?.getItem("theme");
  const present = () => kept() ?? (system.matches ? "dark" : "light");
  system.addEventListener("change", () => show(present()));
  button.addEventListener("click", () => {
    const other = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    storage?.setItem("theme", other);
    show(other);
  });
  show(present());
}

function allowedStorage() {
  try {
    return localStorage;
  } catch {
    return null; // a browser that keeps nothing for pages
  }
}
