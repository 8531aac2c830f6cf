// Types of a board as committed: Grafana's own, with the panels' options and field configs put in.
// Enums are taken by their values, as JSON has them.
import type * as schema from '@grafana/schema';
import type * as bargauge from '@grafana/schema/dist/esm/raw/composable/bargauge/panelcfg/x/BarGaugePanelCfg_types.gen';
import type * as heatmap from '@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen';
import type * as stat from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type * as table from '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen';
import type * as text from '@grafana/schema/dist/esm/raw/composable/text/panelcfg/x/TextPanelCfg_types.gen';
import type * as timeseries from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';

type Value<T> = T extends string
  ? `${T}`
  : T extends number | boolean | null | undefined
    ? T
    : T extends Array<infer Item>
      ? Array<Value<Item>>
      : { [Key in keyof T]: Value<T[Key]> };

interface Target {
  datasource: schema.DataSourceRef;
  editorMode: 'code';
  expr: string;
  format: 'time_series' | 'table' | 'heatmap';
  instant: boolean;
  legendFormat: string;
  range: boolean;
  refId: string;
}

type Override = schema.FieldConfigSource['overrides'][number];

type PanelOf<Kind extends string, Options, Custom> = Omit<
  schema.Panel,
  'type' | 'options' | 'targets' | 'fieldConfig'
> & {
  type: Kind;
  options: Value<Options>;
  targets?: Target[];
  fieldConfig?: {
    defaults: Value<Omit<schema.FieldConfig, 'custom'>> & { custom?: Value<Partial<Custom>> };
    overrides: Override[];
  };
};

export type Panel =
  | PanelOf<'bargauge', bargauge.Options, never>
  | PanelOf<'heatmap', heatmap.Options, heatmap.FieldConfig>
  | PanelOf<'stat', stat.Options, never>
  | PanelOf<'table', table.Options, table.FieldConfig>
  | PanelOf<'text', text.Options, never>
  | PanelOf<'timeseries', timeseries.Options, timeseries.FieldConfig>
  | (Value<Omit<schema.RowPanel, 'panels'>> & { panels: [] });

// What the Prometheus data source adds to an annotation, and a query to its variable.
type Annotation = Value<Omit<schema.AnnotationQuery, 'target' | 'snapshotData'>> & {
  expr?: string;
  step?: string;
  titleFormat?: string;
  textFormat?: string;
};
type Variable = Value<Omit<schema.VariableModel, 'query'>> & {
  definition?: string;
  query: string | { query: string; refId: string };
};

export type Board = Value<Omit<schema.Dashboard, 'panels' | 'annotations' | 'templating'>> & {
  annotations: { list: Annotation[] };
  templating: { list: Variable[] };
  panels: Panel[];
};
