// Plots the shape of a distribution: how many samples lie where, in logarithmic bins.

import { areaOf, frame, horizontal, inWords, text, vertical } from './axes.js';
import { svg } from './dom.js';
import { plural, short } from './format.js';
import { linear, logarithmic, logTicks, ticks } from './scale.js';

/** The bins of a measure with p50 and p99 of its figures, and these in words; null without any. */
export function shape(measure, bins, figures, width) {
  if (!bins?.length) return { drawn: null };
  // The bin of what is too small for a logarithm stands before the first.
  const edges = bins.map(({ from, to }) => [from > 0 ? from : to / 10 ** (1 / 16), to]);
  const { limit } = measure;
  // A bin's room on the left, for the name of p50.
  const domain = [Math.min(edges[0][0], limit ?? Infinity) / 10 ** (1 / 16), Math.max(edges.at(-1)[1], limit ?? 0)];
  const most = Math.max(...bins.map((bin) => bin.count));
  const marks = ticks(most, 3).filter(Number.isInteger);
  const area = areaOf(width, 12);
  const x = logarithmic(domain, [area.left, area.right]);
  const y = linear([0, marks.at(-1)], [area.bottom, area.top]);
  const ranges = bins.map(({ from, to }) => `${short(from)} to ${short(to)} ${measure.unit}`.trim());
  const words = [
    `Shape of ${measure.title}, ${plural(figures.count, 'sample')}`,
    `most of them at ${ranges[bins.findIndex((bin) => bin.count === most)]}`,
    inWords(['p50', 'p99'], figures, measure),
  ];
  const place = (value) => x(Math.min(Math.max(value, domain[0]), domain[1]));
  const said = inWords(['p50', 'p99'], figures, measure);
  const drawn = frame(words, width, [
    ...vertical(measure.samples, marks, y, area),
    ...horizontal(
      `${measure.unit || 'ratio'}, logarithmic`,
      logTicks(domain).map((value) => [x(value), short(value)]),
      area,
    ),
    ...bins.map((bin, at) =>
      bar(edges[at].map(x), y(bin.count), area.bottom, `${ranges[at]}: ${plural(bin.count, 'sample')}`),
    ),
    limit === null ? null : upright('objective', x(limit), area.top, area),
    ...marker('p50', place(figures.p50), 'end', area),
    ...marker('p99', place(figures.p99), place(figures.p99) > area.right - 24 ? 'end' : 'start', area),
  ]);
  return { drawn, said };
}

const upright = (kind, x, top, { bottom }) => svg('line', { class: kind, x1: x, x2: x, y1: top, y2: bottom });

function bar([left, right], top, bottom, words) {
  const place = { x: left + 0.5, y: top, width: Math.max(right - left - 1, 1), height: bottom - top };
  return svg('rect', { class: 'bin', 'data-words': words, ...place });
}

/** A line with its name on the side that is free. */
function marker(quantile, x, anchor, area) {
  const { top } = area;
  return [
    upright(`marker ${quantile}`, x, top - 8, area),
    text(`marker ${quantile}`, anchor === 'end' ? x - 4 : x + 4, top - 2, quantile, anchor),
  ];
}
