// Plots the quantiles of a measure over event time.

import { across, areaOf, axisOf, frame, horizontal, inWords, text, timesOf, vertical } from './axes.js';
import { svg } from './dom.js';
import { plural, timeOfDay } from './format.js';
import { linear, ticks } from './scale.js';

const QUANTILES = ['p50', 'p90', 'p99'];
/** A line goes on over as many slots without a session, less one. */
const GAP = 3;

/** The quantiles of each slot, and the words of the last one; null without any. */
export function overTime(measure, view, width) {
  const { slots, slot_ms: slotMs } = view;
  const points = slots
    .filter(({ figures }) => figures[measure.key])
    .map(({ start_ms, sessions, figures }) => ({ start: start_ms, sessions, figures: figures[measure.key] }));
  if (!points.length) return { drawn: null };
  const [first, last] = [points[0], points.at(-1)];
  const domain = timesOf(view, first.start);
  const highest = Math.max(...points.map(({ figures }) => figures.p99));
  const { limit } = measure;
  const marks = ticks(Math.max(highest, limit ?? 0) || 1);
  const area = areaOf(width, 34);
  const x = linear(domain, [area.left, area.right]);
  const y = linear([0, marks.at(-1)], [area.bottom, area.top]);
  const words = [
    `${measure.title} over time, ${plural(points.length, 'slot')} of ${slotMs / 1000} s`,
    `${timeOfDay(domain[0])} to ${timeOfDay(domain[1])}`,
    `last ${inWords(QUANTILES, last.figures, measure)}`,
    `highest ${inWords(['p99'], { p99: highest }, measure)}`,
  ];
  const drawn = frame(words, width, [
    ...vertical(measure.unit || 'ratio', marks, y, area),
    ...horizontal(...axisOf(domain, x), area),
    ...QUANTILES.flatMap((quantile) =>
      parted(points, slotMs).map((part) =>
        line(
          quantile,
          part.map((point) => [x(point.start + slotMs / 2), y(point.figures[quantile])]),
        ),
      ),
    ),
    limit === null ? null : across('objective', y(limit), area),
    ...endLabels(
      QUANTILES.map((quantile) => y(last.figures[quantile])),
      area,
    ),
    ...points.map((point) => hover(point, measure, x(point.start), x(point.start + slotMs), area)),
  ]);
  return { drawn, said: slotInWords(last, measure) };
}

/** The points, parted where slots without a session lie between. */
function parted(points, slotMs) {
  const parts = [];
  points.forEach((point, at) => {
    const before = points[at - 1];
    if (before && point.start - before.start <= GAP * slotMs) parts.at(-1).push(point);
    else parts.push([point]);
  });
  return parts;
}

function line(quantile, places) {
  if (places.length === 1) return svg('circle', { class: `dot ${quantile}`, cx: places[0][0], cy: places[0][1], r: 3 });
  const points = places.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(' ');
  return svg('polyline', { class: `line ${quantile}`, points });
}

/** At the lines' ends, moved apart where they would meet. */
function endLabels(ends, { right, bottom }) {
  let below = bottom + 15;
  return ends.map((end, at) => {
    below = Math.min(end + 4, below - 12);
    return text(`end ${QUANTILES[at]}`, right + 5, below, QUANTILES[at]);
  });
}

/** What a slot has, for who points at it. */
const slotInWords = ({ start, sessions, figures }, measure) =>
  `${timeOfDay(start)}, ${plural(sessions, 'session')}: ${inWords(QUANTILES, figures, measure)}`;

function hover(point, measure, left, right, { top, bottom }) {
  const place = { x: left, y: top, width: Math.max(right - left, 1), height: bottom - top };
  return svg('rect', { class: 'hover', 'data-words': slotInWords(point, measure), ...place });
}
