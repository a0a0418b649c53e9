// The cards of TTFT, TTFP and RTF: their figures and plots.

import { plot, room } from './axes.js';
import { byId, html, setChildren } from './dom.js';
import { count, exact, NO_SAMPLE, short, windowName } from './format.js';
import { overTime } from './overtime.js';
import { shape } from './shape.js';

const TTFT = { name: 'ttft', title: 'TTFT', unit: 'ms', digits: 3 };
const TTFP = { name: 'ttfp', title: 'TTFP', unit: 'ms', digits: 3 };
const RTF = { name: 'rtf', title: 'RTF', unit: '', digits: 6 };

/** What each measure is of responses, and of sessions. */
const WORDS = {
  response: {
    ttft: 'Time to first text of a response: the server’s value where it sent one, else from response.created.',
    ttfp: 'Time to the first audio packet of a response, measured likewise.',
    rtf: 'From response.created to last audio, by audio emitted. Over 1 comes slower than it plays.',
  },
  stream: {
    ttft: 'From the start of the user’s stream to the session’s first text.',
    ttfp: 'From the start of the user’s stream to the session’s first audio packet.',
    rtf: 'From stream start to last audio, by audio emitted. The user’s speech is in it: 2 to 10 is normal.',
  },
};

const FIGURES = ['count', 'mean', 'p50', 'p90', 'p99', 'max'];

/** Draws the three cards; `of` is "response" or "stream", `limits` are those of measures that are checked. */
export function showCards(of, part, view, limits) {
  const cards = byId('cards');
  const samples = of === 'response' ? 'responses' : 'sessions';
  const drawn = [TTFT, TTFP, RTF].map((measure, at) => {
    const key = `duplex_${of}_${measure.name}${measure.unit && `_${measure.unit}`}`;
    const limit = limits[key] ?? null;
    const width = plotWidth(cards.children[at]);
    return card({ ...measure, key, limit, samples, words: WORDS[of][measure.name] }, part?.figures[key], view, width);
  });
  setChildren(cards, drawn);
}

function card(measure, figures, view, width) {
  return html(
    'article',
    { class: 'card', 'data-measure': measure.key, 'aria-label': `${measure.title} of ${measure.samples}` },
    html('h3', {}, measure.title, html('code', {}, measure.key)),
    html('p', { class: 'words' }, measure.words),
    ...(figures ? filled(measure, figures, view, width) : [none()]),
  );
}

function filled(measure, figures, view, width) {
  const [course, bins] = [overTime(measure, view, width), shape(measure, view.shapes[measure.key], figures, width)];
  return [
    html('dl', { class: 'numbers' }, ...FIGURES.map((name) => number(name, figures, measure))),
    figures.approximate ? html('p', { class: 'approximate' }, 'approximate: quantiles are off by up to 0.5 %') : null,
    html(
      'div',
      { class: 'plots' },
      plot(['Over time', objective(measure)], course.drawn, course.said),
      plot([`Shape, ${windowName(view.window)}`], bins.drawn, bins.said),
    ),
  ];
}

function number(name, figures, { unit, digits }) {
  const value = figures[name];
  const [text, all] = name === 'count' ? [count(value)] : [short(value), `${exact(value, digits)} ${unit}`.trim()];
  const isApproximate = figures.approximate && name.startsWith('p');
  return html(
    'div',
    {},
    html('dt', {}, unit && name !== 'count' ? `${name}, ${unit}` : name),
    html('dd', { 'data-figure': name, 'data-value': value, title: all }, isApproximate ? `≈ ${text}` : text),
  );
}

const none = () => html('p', { class: 'none' }, NO_SAMPLE);

function objective({ limit, unit }) {
  return limit === null ? null : html('span', { class: 'objective' }, `objective ${count(limit)} ${unit}`.trim());
}

function plotWidth(before) {
  const all = byId('cards').clientWidth;
  return room(before?.querySelector('figure'), all > 992 ? all / 3 - 56 : all > 640 ? all / 2 - 40 : all - 36);
}
