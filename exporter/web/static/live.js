// The newest column of the heatmap as a table.

const rows = document.getElementById("rows");
let names = [];

function show(event) {
  const frame = JSON.parse(event.data);
  if (frame.layout) names = frame.layout.rows.map((row) => row.device ?? "engine");
  const bytes = Uint8Array.from(atob(frame.cells), (character) => character.charCodeAt(0));
  const codes = new DataView(bytes.buffer);
  const newest = bytes.length / 2 - names.length;
  rows.replaceChildren(...names.map((name, index) => {
    const code = codes.getUint16(2 * (newest + index), true);
    const row = document.createElement("tr");
    for (const text of [name, code === 65535 ? "unknown" : `${(code / 100).toFixed(2)} %`]) {
      row.appendChild(document.createElement("td")).textContent = text;
    }
    return row;
  }));
}

const source = new EventSource("api/live");
source.addEventListener("full", show);
source.addEventListener("delta", show);
