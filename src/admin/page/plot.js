// Plots of one measure: its quantiles over time, and the shape of its distribution.

import { svg } from './dom.js';
import { count, exact, hourAndMinute, plural, short, timeOfDay, zone } from './format.js';
import { linear, logarithmic, logTicks, ticks, timeTicks } from './scale.js';

const HEIGHT = 190;
const MARGIN = { top: 22, right: 34, bottom: 34, left: 46 };
const QUANTILES = ['p50', 'p90', 'p99'];
/** Lines go over this many slots without a session, not over more. */
const GAP = 3;
/** An objective higher above the highest value is not drawn: it would flatten the lines. */
const LIMIT_SHOWN = 2;

/** The quantiles of each slot. `measure` has name, unit and digits; `limit` is its objective or null. */
export function overTime(measure, slots, slotMs, limit, width) {
  const points = slots.flatMap(({ start_ms, sessions, figures }) =>
    figures[measure.key] ? [{ start: start_ms, sessions, figures: figures[measure.key] }] : []);
  if (!points.length) return null;
  const area = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: HEIGHT - MARGIN.bottom };
  const from = points[0].start;
  const to = points.at(-1).start + slotMs;
  const highest = Math.max(...points.map(({ figures }) => figures.p99));
  const shown = limit !== null && limit <= LIMIT_SHOWN * highest ? limit : null;
  const marks = ticks(Math.max(highest, shown ?? 0) || 1);
  const x = linear([from, to], [area.left, area.right]);
  const y = linear([0, marks.at(-1)], [area.bottom, area.top]);
  const place = (point, quantile) => [x(point.start + slotMs / 2), y(point.figures[quantile])];

  const label = `${measure.title} over time, ${plural(points.length, 'slot')} of ${slotMs / 1000} s from ${timeOfDay(from)} to ${timeOfDay(to)}. `
    + `Last: ${QUANTILES.map((quantile) => `${quantile} ${exact(points.at(-1).figures[quantile], measure.digits)}`).join(', ')}${measure.unit && ` ${measure.unit}`}. `
    + `Highest p99: ${exact(highest, measure.digits)}.`;
  return frame(label, width, [
    svg('text', { class: 'unit', x: area.left, y: 11 }, measure.unit || 'ratio'),
    ...grid(marks, y, area),
    ...timeAxis([from, to], x, area),
    ...QUANTILES.flatMap((quantile) => line(quantile, runs(points, slotMs).map((run) => run.map((point) => place(point, quantile))))),
    shown === null ? '' : svg('line', { class: 'objective', x1: area.left, x2: area.right, y1: y(shown), y2: y(shown) }),
    ...endLabels(QUANTILES.map((quantile) => [quantile, place(points.at(-1), quantile)[1]]), area),
    ...points.map((point) => hover(point, slotMs, measure, x, area)),
  ]);
}

/** The points, parted where slots without a session lie between. */
function runs(points, slotMs) {
  const parts = [];
  points.forEach((point, at) => {
    const before = points[at - 1];
    if (before && point.start - before.start <= GAP * slotMs) parts.at(-1).push(point);
    else parts.push([point]);
  });
  return parts;
}

function line(quantile, parts) {
  return parts.map((places) => (places.length === 1
    ? svg('circle', { class: `dot ${quantile}`, cx: places[0][0], cy: places[0][1], r: 2 })
    : svg('polyline', { class: `line ${quantile}`, points: places.map((place) => place.map((at) => at.toFixed(1)).join()).join(' ') })));
}

/** At the lines' ends, moved apart where they would meet. */
function endLabels(ends, { right, bottom }) {
  let above = bottom + 15;
  return ends.map(([quantile, at]) => {
    above = Math.min(at + 4, above - 12);
    return svg('text', { class: `end ${quantile}`, x: right + 5, y: above }, quantile);
  });
}

function hover({ start, sessions, figures }, slotMs, measure, x, { top, bottom }) {
  const text = `${timeOfDay(start)}, ${plural(sessions, 'session')}: `
    + QUANTILES.map((quantile) => `${quantile} ${exact(figures[quantile], measure.digits)}`).join(', ');
  return svg('rect', { class: 'hover', x: x(start), y: top, width: Math.max(x(start + slotMs) - x(start), 1), height: bottom - top }, svg('title', {}, text));
}

/** How many samples lie where, with p50 and p99 marked. */
export function shape(measure, bins, figures, width) {
  if (!bins?.length || !figures) return null;
  const area = { left: MARGIN.left, right: width - 12, top: MARGIN.top, bottom: HEIGHT - MARGIN.bottom };
  // The bin of what is too small for a logarithm stands before the first.
  const edges = bins.map(({ from, to }) => [from > 0 ? from : to / 10 ** (1 / 16), to]);
  const domain = [edges[0][0], edges.at(-1)[1]];
  const most = Math.max(...bins.map((bin) => bin.count));
  const marks = ticks(most, 3).filter(Number.isInteger);
  const x = logarithmic(domain, [area.left, area.right]);
  const y = linear([0, marks.at(-1)], [area.bottom, area.top]);
  const ranges = bins.map(({ from, to }) => `${short(from)} to ${short(to)}${measure.unit && ` ${measure.unit}`}`);

  const peak = ranges[bins.findIndex((bin) => bin.count === most)];
  const label = `Shape of ${measure.title}: ${plural(figures.count, 'sample')}, most of them at ${peak}; `
    + `p50 ${exact(figures.p50, measure.digits)}, p99 ${exact(figures.p99, measure.digits)}${measure.unit && ` ${measure.unit}`}.`;
  return frame(label, width, [
    svg('text', { class: 'unit', x: area.left, y: 11 }, measure.samples),
    ...grid(marks, y, area),
    ...bins.map((bin, at) => {
      const [left, right] = edges[at].map(x);
      const title = svg('title', {}, `${ranges[at]}: ${plural(bin.count, 'sample')}`);
      return svg('rect', { class: 'bin', x: left + 0.5, y: y(bin.count), width: Math.max(right - left - 1, 1), height: area.bottom - y(bin.count) }, title);
    }),
    ...logTicks(domain).map((value) => tick(x(value), short(value), area)),
    svg('text', { class: 'axis', x: (area.left + area.right) / 2, y: HEIGHT - 3 }, `${measure.unit || 'ratio'}, logarithmic`),
    ...[['p50', 'end', -4], ['p99', 'start', 4]].flatMap(([quantile, anchor, gap]) => {
      const at = x(Math.min(Math.max(figures[quantile], domain[0]), domain[1]));
      const fits = anchor === 'start' && at > area.right - 24 ? ['end', -4] : [anchor, gap];
      return [
        svg('line', { class: `marker ${quantile}`, x1: at, x2: at, y1: area.top - 8, y2: area.bottom }),
        svg('text', { class: `marker ${quantile}`, x: at + fits[1], y: area.top - 2, 'text-anchor': fits[0] }, quantile),
      ];
    }),
  ]);
}

function frame(label, width, children) {
  return svg('svg', { role: 'img', 'aria-label': label, width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}` }, ...children);
}

function grid(marks, y, { left, right }) {
  return marks.flatMap((value) => [
    svg('line', { class: value ? 'grid' : 'base', x1: left, x2: right, y1: y(value), y2: y(value) }),
    svg('text', { class: 'tick', x: left - 6, y: y(value) + 4, 'text-anchor': 'end' }, Number.isInteger(value) ? count(value) : short(value)),
  ]);
}

const tick = (x, text, { bottom }) => svg('text', { class: 'tick', x, y: bottom + 15, 'text-anchor': 'middle' }, text);

function timeAxis(domain, x, area) {
  const { times, step } = timeTicks(domain);
  return [
    ...times.map((time) => tick(x(time), step < 60_000 ? timeOfDay(time) : hourAndMinute(time), area)),
    svg('text', { class: 'axis', x: (area.left + area.right) / 2, y: HEIGHT - 3 }, `event time, ${zone()}`),
  ];
}
