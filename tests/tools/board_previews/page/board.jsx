// A board of Grafana drawn from its JSON with Grafana's own components: what stands where, and how.
import "@fontsource/inter/400.css";
import "@fontsource/inter/500.css";
import "uplot/dist/uPlot.min.css";
import {
  createTheme,
  dateTime,
  EventBusSrv,
  getDisplayValueAlignmentFactors,
  getFieldDisplayValues,
  renderMarkdown,
  ThemeContext,
} from "@grafana/data";
import {
  BarGauge,
  BigValue,
  GlobalStyles,
  PanelChrome,
  PanelContextProvider,
  Table,
  TimeSeries,
  VizRepeater,
} from "@grafana/ui";
import { createRoot } from "react-dom/client";
import { framesOf } from "./frames.js";
import { Heatmap } from "./heatmap.jsx";
import { COLOURS, drawMarks } from "./marks.js";

const CELL = 30; // pixels of Grafana's grid
const GAP = 8;
const COLUMNS = 24;
const theme = createTheme({ colors: { mode: "dark" } });

function TimeSeriesPanel({ frames, panel, range, marks, width, height }) {
  const marked = new WeakSet();
  const timeRange = { from: dateTime(range.from), to: dateTime(range.to), raw: { from: "", to: "" } };
  return (
    <TimeSeries
      {...{ frames, width, height, timeRange }}
      timeZone="utc"
      legend={panel.options.legend}
      options={panel.options}
    >
      {(config) => {
        if (!marked.has(config)) {
          marked.add(config);
          config.addHook("draw", (plot) => {
            const { ctx, bbox } = plot;
            drawMarks(ctx, marks, (at) => plot.valToPos(at, "x", true), bbox);
          });
        }
        return null;
      }}
    </TimeSeries>
  );
}

const displayed = (frames, panel, sparkline) =>
  getFieldDisplayValues({
    data: frames,
    fieldConfig: panel.fieldConfig,
    reduceOptions: panel.options.reduceOptions,
    replaceVariables: (text) => text,
    sparkline,
    theme,
    timeZone: "utc",
  });

function StatPanel({ frames, panel, width, height }) {
  const { colorMode, graphMode, justifyMode } = panel.options;
  const [shown] = displayed(frames, panel, graphMode === "area");
  return (
    <BigValue
      {...{ width, height, colorMode, graphMode, justifyMode, theme }}
      value={shown.display}
      sparkline={shown.sparkline}
      textMode="value"
    />
  );
}

function BarGaugePanel({ frames, panel, width, height }) {
  const { displayMode, minVizHeight, maxVizHeight, showUnfilled, valueMode, namePlacement } = panel.options;
  return (
    <VizRepeater
      source={frames}
      getValues={() => displayed(frames, panel, false)}
      getAlignmentFactors={getDisplayValueAlignmentFactors}
      renderCounter={0}
      orientation="horizontal"
      itemSpacing={10}
      {...{ width, height, minVizHeight, maxVizHeight }}
      renderValue={({ value, width, height, alignmentFactors }) => (
        <BarGauge
          {...{ width, height, displayMode, showUnfilled, namePlacement, alignmentFactors, theme }}
          value={value.display}
          field={value.field}
          display={value.view?.getFieldDisplayProcessor(value.colIndex)}
          orientation="horizontal"
          itemSpacing={10}
          valueDisplayMode={valueMode}
        />
      )}
    />
  );
}

function TablePanel({ frames, panel, width, height }) {
  return <Table data={frames[0]} {...{ width, height }} initialSortBy={panel.options.sortBy} cellHeight="sm" />;
}

const KINDS = {
  timeseries: TimeSeriesPanel,
  stat: StatPanel,
  bargauge: BarGaugePanel,
  table: TablePanel,
  heatmap: Heatmap,
};

function Content(props) {
  const { panel, frames } = props;
  if (panel.type === "text") {
    return (
      <div className="markdown-html" dangerouslySetInnerHTML={{ __html: renderMarkdown(panel.options.content) }} />
    );
  }
  const Kind = KINDS[panel.type];
  if (!frames.length && panel.type !== "stat") {
    return <div className="no-value">{panel.fieldConfig.defaults.noValue}</div>;
  }
  return <Kind {...props} theme={theme} />;
}

function Board({ board, panels, width }) {
  const column = (width - 2 * GAP + GAP) / COLUMNS;
  const range = { from: board.from_ms, to: board.to_ms };
  return (
    <>
      <header>
        <h1>{board.title}</h1>
        {Object.entries(board.choices).map(([name, values]) => (
          <span className="choice" key={name}>
            <b>{name}</b> {values}
          </span>
        ))}
        {board.annotations.map(({ name, color }) => (
          <span className="annotation-name" key={name}>
            <i style={{ background: COLOURS[color] }} /> {name}
          </span>
        ))}
        <span className="note">{board.note}</span>
      </header>
      <main style={{ height: Math.max(...panels.map(({ panel: { gridPos: p } }) => p.y + p.h)) * (CELL + GAP) }}>
        {panels.map(({ panel, frames }) => {
          const { x, y, w, h } = panel.gridPos;
          const size = { width: w * column - GAP, height: h * (CELL + GAP) - GAP };
          const place = { position: "absolute", left: GAP + x * column, top: y * (CELL + GAP), ...size };
          if (panel.type === "row") {
            return (
              <h2 key={panel.id} style={place}>
                {panel.folded === undefined ? "⌄" : "›"} {panel.title}
                {panel.folded !== undefined && <small> ({panel.folded} panels)</small>}
              </h2>
            );
          }
          return (
            <section key={panel.id} data-panel={panel.title} style={place}>
              <PanelChrome title={panel.title} {...size} padding={panel.type === "table" ? "none" : "md"}>
                {(innerWidth, innerHeight) => (
                  <Content {...{ panel, frames, range }} marks={board.marks} width={innerWidth} height={innerHeight} />
                )}
              </PanelChrome>
            </section>
          );
        })}
      </main>
    </>
  );
}

globalThis.show = async (board, width) => {
  const panels = await Promise.all(
    board.panels.map(async (one) => ({ panel: one.panel, frames: await framesOf(one, theme) })),
  );
  const context = { eventsScope: "preview", eventBus: new EventBusSrv(), sync: () => 0 };
  createRoot(document.getElementById("board")).render(
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <PanelContextProvider value={context}>
        <Board {...{ board, panels, width }} />
      </PanelContextProvider>
    </ThemeContext.Provider>,
  );
};
