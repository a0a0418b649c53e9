// What both plots have: the frame, the axes, the ticks.

import { svg } from './dom.js';
import { count, exact, short } from './format.js';

const HEIGHT = 190;

/** Where the marks of a plot of this width go. */
export const areaOf = (width, right) => ({ left: 46, right: width - right, top: 22, bottom: HEIGHT - 34 });

/** A plot; what it shows is told in words to those who do not see it. */
export function frame(words, width, children) {
  const label = `${words.map((part) => part.trim()).join('; ')}.`;
  const size = { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}` };
  return svg('svg', { role: 'img', 'aria-label': label, ...size }, ...children);
}

export const text = (kind, x, y, content, anchor = 'start') =>
  svg('text', { class: kind, x, y, 'text-anchor': anchor }, content);

export const across = (kind, y, { left, right }) => svg('line', { class: kind, x1: left, x2: right, y1: y, y2: y });

/** The vertical axis: its unit, and a line for each mark. */
export function vertical(unit, marks, y, area) {
  const write = (value) => (Number.isInteger(value) ? count(value) : short(value));
  return [
    text('unit', area.left, 11, unit),
    ...marks.map((value) => across(value ? 'grid' : 'base', y(value), area)),
    ...marks.map((value) => text('tick', area.left - 6, y(value) + 4, write(value), 'end')),
  ];
}

/** The horizontal axis: its title, and [place, text] of its ticks. */
export function horizontal(title, ticks, { left, right, bottom }) {
  return [
    ...ticks.map(([x, content]) => text('tick', x, bottom + 15, content, 'middle')),
    text('axis', (left + right) / 2, HEIGHT - 3, title, 'middle'),
  ];
}

/** "p50 312.250, p99 980.126 ms" */
export const inWords = (names, figures, { digits, unit }) =>
  `${names.map((name) => `${name} ${exact(figures[name], digits)}`).join(', ')} ${unit}`.trim();
