// Prometheus' answers as Grafana's data frames, with units, colours and thresholds of the panel.
import {
  applyFieldOverrides,
  FieldConfigOptionsRegistry,
  FieldType,
  standardFieldConfigEditorRegistry,
  standardTransformers,
  standardTransformersRegistry,
  toDataFrame,
  transformDataFrame,
} from "@grafana/data";
import { lastValueFrom } from "rxjs";

const IN_DEFAULTS = "unit min max decimals displayName color noValue thresholds mappings links";
const CUSTOM =
  "drawStyle fillOpacity lineInterpolation lineWidth showPoints spanNulls stacking thresholdsStyle cellOptions align filterable minWidth axisSoftMin";

const anything = (id, isCustom) => ({
  id: isCustom ? `custom.${id}` : id,
  path: id,
  isCustom,
  name: id,
  process: (value) => value,
  shouldApply: () => true,
  override: () => null,
  editor: () => null,
});
const items = [
  ...IN_DEFAULTS.split(" ").map((id) => anything(id, false)),
  ...CUSTOM.split(" ").map((id) => anything(id, true)),
];
const registry = new FieldConfigOptionsRegistry(() => items);
standardFieldConfigEditorRegistry.setInit(() => items.filter((item) => !item.isCustom));
standardTransformersRegistry.setInit(() =>
  ["filterFieldsByNameTransformer", "mergeTransformer", "organizeFieldsTransformer"].map((name) => ({
    id: standardTransformers[name].id,
    name,
    transformation: async () => standardTransformers[name],
  })),
);

const nameOf = (template, labels) => template.replace(/\{\{(\w+)\}\}/g, (_, label) => labels[label] ?? "");

function courseFrame({ refId, legend }, { metric, values }) {
  return toDataFrame({
    refId,
    fields: [
      { name: "Time", type: FieldType.time, values: values.map(([at]) => at * 1000), config: {} },
      {
        name: "Value",
        type: FieldType.number,
        values: values.map(([, value]) => Number(value)),
        labels: metric,
        config: legend === "__auto" ? {} : { displayNameFromDS: nameOf(legend, metric) },
      },
    ],
  });
}

function tableFrame({ refId, series }, isOnly) {
  const labels = [...new Set(series.flatMap(({ metric }) => Object.keys(metric)))].sort();
  return toDataFrame({
    refId,
    fields: [
      { name: "Time", type: FieldType.time, values: series.map(({ values }) => values[0][0] * 1000) },
      ...labels.map((label) => ({
        name: label,
        type: FieldType.string,
        values: series.map(({ metric }) => metric[label] ?? ""),
      })),
      {
        name: isOnly ? "Value" : `Value #${refId}`,
        type: FieldType.number,
        values: series.map(({ values }) => Number(values[0][1])),
      },
    ],
  });
}

export async function framesOf({ panel, answers }, theme) {
  let data = answers.flatMap((answer) =>
    answer.format === "table"
      ? answer.series.length
        ? [tableFrame(answer, answers.length === 1)]
        : []
      : answer.series.map((series) => courseFrame(answer, series)),
  );
  if (panel.transformations && data.length) {
    data = await lastValueFrom(transformDataFrame(panel.transformations, data, { interpolate: (text) => text }));
  }
  return applyFieldOverrides({
    data,
    fieldConfig: panel.fieldConfig ?? { defaults: {}, overrides: [] },
    fieldConfigRegistry: registry,
    replaceVariables: (text) => text,
    theme,
    timeZone: "utc",
  });
}
