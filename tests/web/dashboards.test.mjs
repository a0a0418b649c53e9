// The dashboards against the types of Grafana's schema package.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const folder = path.resolve(here, '../../deploy/grafana/dashboards');
const { bin } = createRequire(import.meta.url)('typescript/package.json');
const tsc = path.join(here, 'node_modules/typescript', bin.tsc);

const dashboards = new Map();
for (const name of (await readdir(folder)).filter((name) => name.endsWith('.json'))) {
  dashboards.set(name, JSON.parse(await readFile(path.join(folder, name), 'utf8')));
}

/** The panel plugins whose options have types, by the type that a panel names. */
const PANELS = '@grafana/schema/dist/esm/raw/composable';
const PLUGINS = { heatmap: 'Heatmap', stat: 'Stat', timeseries: 'TimeSeries' };

/** Types of what a file may hold: plain values for enums, and of options those that differ from the defaults. */
const HEAD = `
import type { Dashboard, Panel, RowPanel } from '@grafana/schema';
${Object.entries(PLUGINS)
  .map(
    ([type, name]) =>
      `import type * as ${type} from '${PANELS}/${type}/panelcfg/x/${name}PanelCfg_types.gen';`,
  )
  .join('\n')}
type Plain<T> = T extends string ? \`\${T}\`
  : T extends number ? (\`\${T}\` extends \`\${infer N extends number}\` ? N : never)
  : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;
type Some<T> = T extends (infer Item)[] ? Some<Item>[] : T extends object ? { [K in keyof T]?: Some<T[K]> } : T;
`;

/** TypeScript that compiles where a dashboard is one. Each part by itself: in a union any member's fields would do. */
function assignments({ panels, ...dashboard }) {
  const lines = [`${JSON.stringify(dashboard)} satisfies Plain<Omit<Dashboard, 'panels'>>;`];
  for (const { options, ...panel } of panels.flatMap((panel) => [panel, ...(panel.panels ?? [])])) {
    if (panel.type === 'row') {
      lines.push(`${JSON.stringify({ ...panel, panels: [] })} satisfies Plain<RowPanel>;`);
      continue;
    }
    lines.push(`${JSON.stringify(panel)} satisfies Plain<Panel>;`);
    lines.push(`${JSON.stringify(options)} satisfies Plain<Some<${panel.type}.Options>>;`);
    const { custom } = panel.fieldConfig.defaults;
    if (custom) lines.push(`${JSON.stringify(custom)} satisfies Plain<Some<${panel.type}.FieldConfig>>;`);
  }
  return HEAD + lines.map((line) => `(${line.replace(/;$/, ');')}`).join('\n');
}

/** Errors of the compiler by the name of the source. */
async function compile(sources) {
  // Below the packages, so that it finds them.
  const folder = await mkdtemp(path.join(here, 'node_modules/.dashboards-'));
  try {
    await Promise.all(Object.entries(sources).map(([name, text]) => writeFile(path.join(folder, `${name}.ts`), text)));
    const compilerOptions = {
      noEmit: true,
      strict: true,
      skipLibCheck: true,
      target: 'esnext',
      module: 'esnext',
      moduleResolution: 'bundler',
      types: [],
    };
    await writeFile(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
    const output = await new Promise((resolve) => {
      execFile(
        process.execPath,
        [tsc, '--pretty', 'false', '--project', folder],
        { cwd: folder, maxBuffer: 1 << 26 },
        (_, stdout, stderr) => resolve(stdout + stderr),
      );
    });
    const errors = Object.fromEntries(Object.keys(sources).map((name) => [name, []]));
    for (const line of output.split('\n').filter((line) => line.includes('error TS'))) {
      const name = line.match(/^([^(/]+)\.ts\(/)?.[1];
      assert.ok(name in errors, `the compiler itself: ${line}`);
      errors[name].push(line);
    }
    return errors;
  } finally {
    await rm(folder, { recursive: true });
  }
}

test('every dashboard is one by Grafana’s schema', async () => {
  assert.ok(dashboards.size > 0);
  const sources = Object.fromEntries(
    Array.from(dashboards, ([name, dashboard]) => [name.replace('.json', ''), assignments(dashboard)]),
  );
  for (const [name, errors] of Object.entries(await compile(sources))) assert.deepEqual(errors, [], name);
});

test('a mistake in a dashboard is found, wherever it is', async () => {
  const first = (dashboard, type) => dashboard.panels.find((panel) => panel.type === type);
  const mistakes = {
    none: () => {},
    'field-of-dashboard': (dashboard) => {
      dashboard.refreshEvery = '30s';
    },
    'value-of-dashboard': (dashboard) => {
      dashboard.graphTooltip = 7;
    },
    'field-of-variable': (dashboard) => {
      dashboard.templating.list[0].lable = 'x';
    },
    'field-of-row': (dashboard) => {
      first(dashboard, 'row').colapsed = true;
    },
    'field-of-panel': (dashboard) => {
      first(dashboard, 'stat').descripton = 'x';
    },
    'field-of-place': (dashboard) => {
      first(dashboard, 'stat').gridPos.width = 6;
    },
    'field-of-defaults': (dashboard) => {
      first(dashboard, 'stat').fieldConfig.defaults.units = 's';
    },
    'mode-of-thresholds': (dashboard) => {
      first(dashboard, 'stat').fieldConfig.defaults.thresholds.mode = 'absolut';
    },
    'option-of-stat': (dashboard) => {
      first(dashboard, 'stat').options.colourMode = 'value';
    },
    'value-of-stat': (dashboard) => {
      first(dashboard, 'stat').options.graphMode = 'areas';
    },
    'option-of-timeseries': (dashboard) => {
      first(dashboard, 'timeseries').options.legend.position = 'bottom';
    },
    'value-of-timeseries': (dashboard) => {
      first(dashboard, 'timeseries').options.tooltip.mode = 'all';
    },
    'custom-of-timeseries': (dashboard) => {
      first(dashboard, 'timeseries').fieldConfig.defaults.custom = { lineWidht: 2 };
    },
    'option-of-heatmap': (dashboard) => {
      first(dashboard, 'heatmap').options.yAxis.units = 's';
    },
    'value-of-heatmap': (dashboard) => {
      first(dashboard, 'heatmap').options.color.mode = 'schemes';
    },
  };
  const sources = Object.fromEntries(
    Object.entries(mistakes).map(([name, make]) => {
      const dashboard = structuredClone(dashboards.get('traffic.json'));
      make(dashboard);
      return [name, assignments(dashboard)];
    }),
  );
  const missed = Object.entries(await compile(sources))
    .filter(([, errors]) => errors.length === 0)
    .map(([name]) => name);
  assert.deepEqual(missed, ['none']);
});

for (const [name, dashboard] of dashboards) {
  const panels = dashboard.panels
    .flatMap((panel) => [panel, ...(panel.panels ?? [])])
    .filter((panel) => panel.type !== 'row');
  const source = { type: 'prometheus', uid: '${datasource}' };

  test(`${name}: every panel is described, has a unit and asks the chosen data source`, () => {
    assert.ok(
      dashboard.templating.list.some((variable) => variable.name === 'datasource' && variable.type === 'datasource'),
    );
    assert.ok(panels.length > 0);
    for (const { title, description, datasource, targets, fieldConfig } of panels) {
      assert.match(description ?? '', /\w.*\.$/s, `${title}: a description`);
      assert.ok(fieldConfig.defaults.unit, `${title}: a unit`);
      assert.deepEqual(datasource, source, title);
      assert.ok(targets.length > 0, title);
      for (const target of targets) assert.deepEqual(target.datasource, source, `${title}, ${target.refId}`);
    }
  });
}

test('traffic.json: the first run to choose, so the one it opens at, is the one whose last event is latest', () => {
  const { query, regex, sort, current } = dashboards
    .get('traffic.json')
    .templating.list.find((variable) => variable.name === 'run');
  const latest = 'max by (run) (last_over_time(duplex_run_last_event_timestamp_seconds[$__range]))';
  assert.equal(query.query, `query_result(sort_desc(${latest}))`);
  // Neither another order nor a run of old.
  assert.deepEqual([sort, current], [0, undefined]);
  // What Grafana makes of the answer, and what it keeps of that.
  const runs = ['b', 'a', 'a "quoted"} 1 2', 'a, b'];
  const texts = runs.map((run, nth) => `{run="${run}"} ${1796100650.123 - nth} 1796100660000`);
  const [, pattern] = regex.match(/^\/(.*)\/$/);
  assert.deepEqual(
    texts.map((text) => text.match(new RegExp(pattern))?.[1]),
    runs,
  );
});
