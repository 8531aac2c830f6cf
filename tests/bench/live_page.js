// Stands between the page and the server in a bench: times events and frames, and can replay
// recorded events faster than they came.

const bench = { received: 0, arrivals: [], latencies: [], eventMs: [], frameMs: [] };
globalThis.bench = bench;

const nextFrame = globalThis.requestAnimationFrame.bind(globalThis);
globalThis.requestAnimationFrame = (callback) =>
  nextFrame((time) => {
    const began = performance.now();
    callback(time);
    bench.frameMs.push(performance.now() - began);
    if (bench.received === 0) return;
    const sampled = bench.received;
    // The next frame begins when this one is on its way to the screen.
    nextFrame(() => bench.latencies.push(performance.timeOrigin + performance.now() - sampled));
    bench.received = 0;
  });

const Source = globalThis.EventSource;
globalThis.EventSource = class extends EventTarget {
  static CLOSED = 2;

  constructor(url) {
    super();
    if (bench.recorded) {
      bench.source = this;
      queueMicrotask(() => this.hand("full", bench.recorded.full));
      return;
    }
    this.source = new Source(url);
    for (const kind of ["full", "delta", "idle"]) {
      this.source.addEventListener(kind, (event) => this.hand(kind, JSON.parse(event.data)));
    }
  }

  hand(kind, content) {
    if (kind !== "idle") bench.received = content.unix_ms;
    if (kind === "delta") bench.arrivals.push(performance.timeOrigin + performance.now() - bench.received);
    const event = new MessageEvent(kind, { data: JSON.stringify(content) });
    const began = performance.now();
    this.dispatchEvent(event);
    if (kind === "delta") bench.eventMs.push(performance.now() - began);
  }

  close() {
    this.source?.close();
  }
};

/** Hand `count` deltas to the page, made of the recorded ones in turn, `each` of them a frame. */
bench.play = async (count, each) => {
  const { full, deltas } = bench.recorded;
  bench.column ??= full.column;
  for (let at = 0; at < count; at += 1) {
    const delta = deltas[bench.column % deltas.length];
    bench.column += 1;
    const shift = bench.column - delta.column;
    bench.source.hand("delta", {
      ...delta,
      column: bench.column,
      unix_ms: delta.unix_ms + shift * 500,
      preempted: delta.preempted.map(([column, row, number]) => [column + shift, row, number]),
    });
    if (at % each === 0) await new Promise((done) => nextFrame(done));
  }
};

/** Milliseconds between frames of the screen over some seconds. */
bench.frames = async (seconds) => {
  const gaps = [];
  let last = await new Promise((done) => nextFrame(done));
  for (const end = last + 1000 * seconds; last < end; ) {
    const now = await new Promise((done) => nextFrame(done));
    gaps.push(now - last);
    last = now;
  }
  return gaps;
};
