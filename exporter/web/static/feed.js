// The connection to /api/live: notices when it is lost, and opens it again where it ended.
// Knows nothing of what events mean.

const SILENT_MS = 6000; // nothing for so long: the connection is dead
const AGAIN_MS = 1000;

export class Feed {
  /** `on`: full(data), delta(data), idle(data), lost(reason of the server, if it gives one). */
  constructor(on) {
    this.on = on;
  }

  /** Follow {metric, window}; an earlier stream ends. */
  open(choice) {
    this.close();
    this.question = new URLSearchParams(choice);
    this.#connect();
  }

  close() {
    this.source?.close();
    clearTimeout(this.timer);
  }

  #connect() {
    this.source = new EventSource(`api/live?${this.question}`);
    for (const kind of ["full", "delta", "idle"]) {
      this.source.addEventListener(kind, (event) => {
        if (event.lastEventId) this.question.set("after", event.lastEventId);
        this.#waitFor(SILENT_MS);
        this.on[kind](JSON.parse(event.data));
      });
    }
    this.source.addEventListener("error", (event) => {
      const isRefused = event.target.readyState === EventSource.CLOSED;
      this.#waitFor(isRefused ? AGAIN_MS : SILENT_MS);
      this.on.lost();
      if (isRefused) this.#askWhy();
    });
    this.#waitFor(SILENT_MS);
  }

  /** An EventSource hides the text of an answer that is no stream. */
  async #askWhy() {
    const answer = await fetch(`api/live?${this.question}`).catch(() => null);
    if (answer?.ok) answer.body.cancel();
    else if (answer) this.on.lost(await answer.text());
  }

  #waitFor(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.source.close();
      this.on.lost();
      this.#connect();
    }, ms);
  }
}
