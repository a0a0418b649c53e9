// What all plots have: the frame, the axes, the ticks, and a line that says what is pointed at.

import { html, svg } from './dom.js';
import { count, hourAndMinute, NO_SAMPLE, short, timeOfDay } from './format.js';
import { timeTicks } from './scale.js';

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
    ...ticks.map(([x, content]) => text('tick', x, bottom + 15, content, x > right - 12 ? 'end' : 'middle')),
    text('axis', (left + right) / 2, HEIGHT - 3, title, 'middle'),
  ];
}

/** The times of a plot from the slot that begins at `first` on: a few slots at least, so that one alone looks like one. */
export const timesOf = ({ slot_ms, end_ms }, first) => [Math.min(first, end_ms - 12 * slot_ms), end_ms];

/** Title and ticks of an axis of event time. */
export function axisOf(domain, x) {
  const { times, step } = timeTicks(domain, Math.floor((x(domain[1]) - x(domain[0])) / 60));
  const clock = step < 60_000 ? timeOfDay : hourAndMinute;
  return ['event time, UTC', times.map((time) => [x(time), clock(time)])];
}

/** "p50 312, p99 980 ms" */
export const inWords = (names, figures, { unit }) =>
  `${names.map((name) => `${name} ${short(figures[name])}`).join(', ')} ${unit}`.trim();

/** A plot with its caption; below it stands `said`, or the words of the mark that is pointed at. */
export function plot(caption, drawn, said) {
  if (!drawn) return html('figure', {}, html('figcaption', {}, ...caption), html('p', { class: 'none' }, NO_SAMPLE));
  const readout = html('p', { class: 'readout' }, said);
  const figure = html('figure', {}, html('figcaption', {}, ...caption), drawn, readout);
  const say = (words) => {
    readout.textContent = words;
  };
  figure.addEventListener('pointerover', ({ target }) => say(target.dataset.words ?? said));
  figure.addEventListener('pointerleave', () => say(said));
  return figure;
}

/** How wide a plot is to be: they are drawn to the pixel, so that their text has the size of the page's. */
export const room = (before, otherwise) => Math.max(before?.clientWidth || otherwise, 240);
