// The export menu: to the clipboard where the browser lets a page write there, to a file always.

const WHY_NOT = "Copying needs https, or this machine's own address; save works.";

/** Wire the menu. `csv()` and `png()`, a promise, are what is shown now; `name(kind)` a file's name. */
export function exportMenu(menu, { csv, png, name, onDone }) {
  const { clipboard } = navigator;
  const actions = {
    "copy-csv": () => clipboard.writeText(csv()),
    "save-csv": () => save(new Blob([csv()], { type: "text/csv;charset=utf-8" }), name("csv")),
    "copy-png": () => clipboard.write([new ClipboardItem({ "image/png": png() })]),
    "save-png": async () => save(await png(), name("png")),
  };
  for (const [id, act] of Object.entries(actions)) {
    const button = menu.querySelector(`#${id}`);
    button.disabled = !clipboard && id.startsWith("copy");
    if (button.disabled) button.title = WHY_NOT;
    button.addEventListener("click", async () => {
      menu.open = false;
      try {
        await act();
        onDone(`Done: ${button.textContent}`);
      } catch (error) {
        onDone(`Not done: ${error.message}`);
      }
    });
  }
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000); // the browser reads it after the click
}
