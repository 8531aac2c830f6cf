// The page: what it shows, from where it comes, and what a person asked for.

import { Board, lookOf } from "./board.js";
import { sentence, showCard } from "./card.js";
import { offer, remember, themeSwitch, wanted } from "./controls.js";
import { csvOf, fileName } from "./csv.js";
import { Cursor } from "./cursor.js";
import { exportMenu } from "./exports.js";
import { setText } from "./dom.js";
import { Feed } from "./feed.js";
import { clock, duration } from "./format.js";
import { summary } from "./headline.js";
import { Model } from "./model.js";
import { pictureOf } from "./picture.js";
import { writeEvents, writeLegend, writeTicks } from "./surroundings.js";

const at = (id) => document.getElementById(id);
const choice = wanted();
let model = null;
let isPaused = false;
let fullRow; // the row that the headline calls full

const board = new Board(at("board"), at("group"));
const cursor = new Cursor(board, (where, place, isByKey) => {
  at("card").hidden = where === null;
  if (where === null) return;
  showCard(at("card"), model, where, place);
  if (isByKey) at("spoken").textContent = sentence(model, where);
});

const feed = new Feed({
  full(event) {
    const former = model;
    model = new Model(event, former);
    if (isPaused) {
      feed.close(); // one look at another metric or window of the moment that is held
      model.hold(former);
    }
    board.show(model);
    writeTicks(at("ticks"), model);
    at("replay").hidden = model.replay === null;
    at("replay").textContent = `Replay of ${model.replay}: these figures are not of this machine.`;
    shown();
  },
  delta(event) {
    model.apply(event);
    board.advance();
    shown();
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

/** A model with something new is on the board: write all that is not on a canvas. */
function shown() {
  tell(isPaused ? "paused" : "live");
  const { headline, subline, row } = summary(model);
  setText(at("headline"), headline);
  setText(at("subline"), subline);
  fullRow = row;
  at("go").hidden = row === undefined || model.rows.length <= 2;
  writeLegend(at("legend"), model);
  writeEvents(at("events"), model);
  cursor.follow();
}

const STATES = {
  connecting: "Connecting",
  live: "Live",
  paused: "Paused",
  stale: "No new samples",
  lost: "Connection lost",
};

function tell(state, trouble = "") {
  document.body.dataset.connection = state;
  const isReplay = state === "live" && model.replay !== null;
  setText(at("state"), isReplay ? "Replay" : STATES[state]);
  at("clock").textContent = model ? `${clock(model.unixS)} UTC` : "";
  at("lost").hidden = trouble === "";
  setText(at("lost"), trouble); // a screen reader says it once
}

function follow() {
  remember(choice);
  feed.open(choice.metric, choice.window);
}

function pause() {
  if (model === null) return;
  isPaused = !isPaused;
  at("pause").setAttribute("aria-pressed", isPaused);
  at("pause").textContent = isPaused ? "Resume" : "Pause";
  if (isPaused) feed.close();
  else follow();
  tell(isPaused ? "paused" : "connecting");
}

for (const name of ["metric", "window"]) offer(at(name), choice, follow);
at("go").addEventListener("click", () => cursor.goTo(fullRow));
at("pause").addEventListener("click", pause);
addEventListener("keydown", (event) => {
  if (event.key === "p" && !event.ctrlKey && !event.metaKey && !event.altKey) pause();
});
exportMenu(at("export"), {
  csv: () => csvOf(model),
  png: () => pictureOf(model, board.groups, summary(model), lookOf(at("board"))),
  name: (kind) => fileName(model, kind),
  onDone: (text) => (at("done").textContent = text),
});
themeSwitch(at("theme"), () => board.paintSoon());
at("controls").addEventListener("submit", (event) => event.preventDefault());
follow();
