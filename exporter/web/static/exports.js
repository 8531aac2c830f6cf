// The export menu: to the clipboard where the browser lets a page write there, to a file always.

const WHY_NOT = "Copying needs https, or this machine's own address; save works.";

/** Wire the menu. `csv()`, `png()` give what is shown now, png as a promise; `name(kind)` a file's name. */
export function exportMenu(menu, { csv, png, name, onDone }) {
  const button = (id) => menu.querySelector(`#${id}`);
  const csvBlob = () => new Blob([csv()], { type: "text/csv;charset=utf-8" });
  const act = (id, verb, run) =>
    button(id).addEventListener("click", async () => {
      menu.open = false;
      try {
        await run();
        onDone(verb);
      } catch (error) {
        onDone(`Not done: ${error.message}`);
      }
    });
  act("copy-csv", "CSV copied", () => navigator.clipboard.writeText(csv()));
  act("save-csv", "CSV saved", async () => save(csvBlob(), name("csv")));
  act("copy-png", "Image copied", () =>
    navigator.clipboard.write([new ClipboardItem({ "image/png": png() })]),
  );
  act("save-png", "Image saved", async () => save(await png(), name("png")));
  for (const id of ["copy-csv", "copy-png"]) {
    button(id).disabled = !navigator.clipboard;
    if (!navigator.clipboard) button(id).title = WHY_NOT;
  }
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000); // the browser reads it after the click
}
