// Elements with text. Names come from elsewhere and can hold anything: text is all they ever become.

/** A new element. */
export function node(name, text = "", className = "") {
  const element = document.createElement(name);
  element.textContent = text;
  element.className = className;
  return element;
}

/** Write a text unless it stands there already. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
