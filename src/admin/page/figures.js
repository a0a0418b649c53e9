// The cards of TTFT, TTFP and RTF, the counts and the end reasons.

import { byId, html, setChildren, svg } from './dom.js';
import { count, duration, exact, NO_SAMPLE, percent, plural, windowName } from './format.js';
import { overTime, shape } from './plot.js';
import { OBJECTIVES } from './verdict.js';

const MEASURES = {
  response: [
    { name: 'ttft', title: 'TTFT', unit: 'ms', words: 'Time to first text of a response: the server’s value where it sent one, else from response.created.' },
    { name: 'ttfp', title: 'TTFP', unit: 'ms', words: 'Time to the first audio packet of a response, measured likewise.' },
    { name: 'rtf', title: 'RTF', unit: '', words: 'From response.created to last audio, by audio emitted. Over 1 comes slower than it plays.' },
  ],
  stream: [
    { name: 'ttft', title: 'TTFT', unit: 'ms', words: 'From the start of the user’s stream to the session’s first text.' },
    { name: 'ttfp', title: 'TTFP', unit: 'ms', words: 'From the start of the user’s stream to the session’s first audio packet.' },
    { name: 'rtf', title: 'RTF', unit: '', words: 'From stream start to last audio, by audio emitted. The user’s speech is in it: 2 to 10 is normal.' },
  ],
};

const FIGURES = ['count', 'mean', 'p50', 'p90', 'p99', 'max'];

/** Draws the three cards; `of` is "response" or "stream". */
export function showCards(of, part, view) {
  setChildren(byId('cards'), MEASURES[of].map((words, at) => {
    const key = `duplex_${of}_${words.name}${words.unit && `_${words.unit}`}`;
    const samples = of === 'response' ? 'responses' : 'sessions';
    const measure = { ...words, key, samples, digits: words.unit ? 3 : 6 };
    return card(measure, part?.figures[key], view, OBJECTIVES[`${of}_${words.name}`]?.limit ?? null, byId('cards').children[at]);
  }));
}

function card(measure, figures, view, limit, before) {
  const made = html('article', { class: 'card', 'data-measure': measure.key, 'aria-label': `${measure.title} of ${measure.samples}` },
    html('h3', {}, measure.title, html('code', {}, measure.key)),
    html('p', { class: 'words' }, measure.words));
  if (!figures) {
    made.append(html('p', { class: 'none' }, NO_SAMPLE));
    return made;
  }
  const room = plotWidth(before);
  made.append(
    html('dl', { class: 'numbers' }, ...FIGURES.map((name) => number(name, figures, measure))),
    figures.approximate ? html('p', { class: 'approximate' }, 'approximate: quantiles are off by up to 0.5 %') : '',
    html('div', { class: 'plots' },
      plot(['Over time', objective(limit, measure)], overTime(measure, view.slots, view.slot_ms, limit, room)),
      plot([`Shape, ${windowName(view.window)}`], shape(measure, view.shapes[measure.key], figures, room))));
  return made;
}

function number(name, figures, measure) {
  const value = figures[name];
  const text = name === 'count' ? count(value) : exact(value, measure.digits);
  const isRounded = figures.approximate && name.startsWith('p');
  return html('div', {},
    html('dt', {}, measure.unit && name !== 'count' ? `${name}, ${measure.unit}` : name),
    html('dd', { 'data-figure': name, 'data-value': value }, isRounded ? `≈ ${text}` : text));
}

const plot = (caption, drawn) => html('figure', {}, html('figcaption', {}, ...caption), drawn ?? html('p', { class: 'none' }, NO_SAMPLE));

const objective = (limit, { unit }) =>
  (limit === null ? '' : html('span', { class: 'objective' }, `objective ${count(limit)}${unit && ` ${unit}`}`));

/** Drawn to the pixel, so that its text has the size of the page's. */
function plotWidth(card) {
  const figure = card?.querySelector('figure');
  if (figure) return Math.max(figure.clientWidth, 240);
  const room = byId('cards').clientWidth;
  return Math.max(room > 992 ? room / 3 - 56 : room > 640 ? room / 2 - 40 : room - 36, 240);
}

/** Draws what is counted of the view, and of this replica. */
export function showTiles(status, part) {
  const here = 'this replica, now';
  const letters = Object.entries(status.dead_letters);
  const running = `${here}; ${plural(status.partitions.running, 'partition')}`;
  const restoring = status.partitions.restoring ? `, ${status.partitions.restoring} restoring` : '';
  setChildren(byId('tiles'), [
    tile('sessions', 'Sessions finished', part?.sessions ?? null, status.view ? windowName(status.view.window) : 'no run yet'),
    tile('responses', 'Responses', part?.responses ?? null, 'of these sessions'),
    tile('sessions_open', 'Sessions open', status.sessions_open, `${running}${restoring}`),
    tile('lag', 'Records of lag', status.lag?.records ?? null, status.lag?.seconds ? `${here}; ${duration(1000 * status.lag.seconds)} behind` : here),
    tile('dead_letters', 'Dead letters', letters.reduce((sum, [, records]) => sum + records, 0),
      letters.length ? letters.map(([reason, records]) => `${reason} ${count(records)}`).join(', ') : 'this replica, since it started'),
  ]);
}

function tile(name, title, value, note) {
  return html('li', { class: 'card tile' },
    html('span', { class: 'title' }, title),
    html('strong', { 'data-tile': name, 'data-value': value }, value === null ? '–' : count(value)),
    html('span', { class: 'note' }, value === null ? 'not known yet' : note));
}

/** Draws how sessions ended, most frequent first. */
export function showEnds(part) {
  const reasons = Object.entries(part?.sessions_by_end_reason ?? {}).sort(([, a], [, b]) => b - a);
  if (!reasons.length) {
    setChildren(byId('reasons-plot'), [html('p', { class: 'none' }, NO_SAMPLE)]);
    return;
  }
  setChildren(byId('reasons-plot'), [html('ul', { class: 'ends' }, ...reasons.map(([reason, sessions]) => {
    const share = sessions / part.sessions;
    return html('li', {},
      html('code', {}, reason),
      svg('svg', { class: 'bar', viewBox: '0 0 100 8', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
        svg('rect', { class: 'track', width: 100, height: 8 }),
        svg('rect', { class: reason === 'closed' ? 'good' : 'bad', width: Math.max(100 * share, 0.5), height: 8 })),
      html('span', { 'data-reason': reason, 'data-value': sessions }, `${count(sessions)} (${percent(share)})`));
  }))]);
}
