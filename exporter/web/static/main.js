// The page: what it shows, from where it comes, and what a person asked for.

import { Board, lookOf } from "./board.js";
import { METRICS, offer, themeSwitch } from "./controls.js";
import { Cursor } from "./cursor.js";
import { summary, writeEvents } from "./events.js";
import { csvOf, exportMenu, fileName, pictureOf } from "./exports.js";
import { Feed } from "./feed.js";
import { Model } from "./model.js";
import { writeOwners } from "./owners.js";
import { GRADIENT } from "./paint.js";
import { clock, duration, setText } from "./text.js";

const STATES = {
  connecting: "Connecting",
  live: "Live",
  paused: "Paused",
  stale: "No new samples",
  lost: "Connection lost",
};

const at = (id) => document.getElementById(id);
let choice; // {metric, window}
let model = null;
let isPaused = false;
let fullRow; // the row that the headline calls full

const board = new Board(at("board"), at("group"));
const cursor = new Cursor(board, at("card"), at("spoken"));

const feed = new Feed({
  full(event) {
    const former = model;
    model = new Model(event, former);
    if (isPaused) {
      feed.close(); // one look at another metric or window of the moment that is held
      model.hold(former);
    }
    show();
  },
  delta(event) {
    model.apply(event);
    show();
  },
  idle({ age_s: age, is_stale: isStale }) {
    if (isStale) tell("stale", `The exporter stands still: its newest sample is ${duration(age)} old.`);
    else tell(model ? "live" : "connecting");
  },
  lost(reason = "") {
    const end = model ? `What you see ended at ${clock(model.unixS)}. ` : "";
    tell("lost", `Connection lost, trying again. ${end}${reason}`.trim());
  },
});

function show() {
  board.show(model);
  tell(isPaused ? "paused" : "live");
  const { headline, subline, row } = summary(model);
  setText(at("headline"), headline);
  setText(at("subline"), subline);
  fullRow = row;
  at("go").hidden = row === undefined || model.rows.length <= 2;
  const { label, meaning } = METRICS[model.metric];
  setText(at("scale-title"), `${label}: ${meaning}`);
  writeOwners(at("owners"), model);
  writeEvents(at("events"), model);
  cursor.follow();
}

function tell(state, trouble = "") {
  document.body.dataset.connection = state;
  const replay = model?.replay ?? null;
  setText(at("state"), state === "live" && replay !== null ? "Replay" : STATES[state]);
  at("clock").textContent = model ? `${clock(model.unixS)} UTC` : "";
  at("replay").hidden = replay === null;
  setText(at("replay"), `Replay of ${replay}: these figures are not of this machine.`);
  at("lost").hidden = trouble === "";
  setText(at("lost"), trouble);
}

function pause() {
  if (model === null) return;
  isPaused = !isPaused;
  at("pause").setAttribute("aria-pressed", isPaused);
  at("pause").textContent = isPaused ? "Resume" : "Pause";
  if (isPaused) feed.close();
  else feed.open(choice);
  tell(isPaused ? "paused" : "connecting");
}

at("gradient").style.background = GRADIENT;
at("go").addEventListener("click", () => cursor.goTo(fullRow));
at("pause").addEventListener("click", pause);
addEventListener("keydown", (event) => {
  if (event.key === "p" && !event.ctrlKey && !event.metaKey && !event.altKey) pause();
});
const blobs = {
  csv: () => csvOf(model),
  png: () => pictureOf(model, board.groups, summary(model), lookOf(at("board"))),
};
exportMenu(at("export"), blobs, (kind) => fileName(model, kind), (text) => setText(at("done"), text));
themeSwitch(at("theme"), () => board.paintSoon());
offer(at("controls"), (chosen) => {
  choice = chosen;
  feed.open(choice);
});
