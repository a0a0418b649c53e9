// The table of the last finished sessions. A finished session does not change, so its row is made once.

import { byId, html, setChildren, setText, svg } from './dom.js';
import { count, dateAndTime, duration, exact, plural, short, timeOfDay } from './format.js';
import { lanes } from './lanes.js';
import { SIGNS, strip } from './timeline.js';

const COLUMNS = 9;
let rows = new Map();
let rowsMade = 0;

export function showLegend() {
  setChildren(
    byId('legend'),
    SIGNS.map(([name, sign]) =>
      html(
        'li',
        {},
        svg(
          'svg',
          { class: 'sign', viewBox: '0 0 24 20', width: 24, height: 20, 'aria-hidden': 'true' },
          ...sign(12, 12),
        ),
        name,
      ),
    ),
  );
}

export function showSessions(sessions) {
  const number = plural(sessions.length, 'session');
  setText(
    byId('last-caption'),
    sessions.length
      ? `The last ${number} that finished, latest first. A row opens for a line for each response.`
      : 'No session has finished yet.',
  );
  const before = rows;
  rows = new Map(
    sessions.map((session) => {
      const key = JSON.stringify([session.session_id, session.ended_ms]);
      return [key, before.get(key) ?? made(session)];
    }),
  );
  setChildren(byId('sessions'), [...rows.values()].flat());
}

function made(session) {
  rowsMade += 1;
  const id = `session-${rowsMade}`;
  const button = html(
    'button',
    { type: 'button', class: 'open', 'aria-expanded': 'false', 'aria-controls': id },
    html('bdi', {}, session.session_id),
  );
  const details = html('tr', { id, class: 'details', hidden: '' }, html('td', { colspan: COLUMNS }));
  button.addEventListener('click', () => {
    details.hidden = !details.hidden;
    button.setAttribute('aria-expanded', String(!details.hidden));
    if (!details.hidden) details.firstElementChild.replaceChildren(inFull(session));
  });
  const row = html(
    'tr',
    {},
    html('th', { scope: 'row' }, button),
    html('td', { class: 'timeline' }, strip(session) ?? 'no times'),
    html('td', { class: 'wide' }, time(session.ended_ms, timeOfDay)),
    html(
      'td',
      {},
      html('span', { class: session.end_reason === 'closed' ? 'reason' : 'reason bad' }, session.end_reason),
    ),
    html('td', { class: 'number wide' }, session.duration_ms === null ? '–' : duration(session.duration_ms)),
    figure(session.stream_ttft_ms, 3),
    figure(session.stream_ttfp_ms, 3),
    figure(session.stream_rtf, 6),
    html('td', { class: 'number wide' }, count(session.errors)),
  );
  return [row, details];
}

const time = (ms, write) =>
  ms === null ? '–' : html('time', { datetime: new Date(ms).toISOString(), title: dateAndTime(ms) }, write(ms));

const figure = (value, digits) =>
  value === null
    ? html('td', { class: 'number' }, '–')
    : html('td', { class: 'number', 'data-value': value, title: exact(value, digits) }, short(value));

function inFull(session) {
  const facts = [
    ['session', html('bdi', {}, session.session_id)],
    ['model', session.model === null ? 'unknown' : html('bdi', {}, session.model)],
    ['first event', time(session.started_ms, dateAndTime)],
    ['last event', time(session.ended_ms, dateAndTime)],
    ['length', session.duration_ms === null ? '–' : duration(session.duration_ms)],
    ['stream TTFT', session.stream_ttft_ms === null ? '–' : `${exact(session.stream_ttft_ms, 3)} ms`],
    ['stream TTFP', session.stream_ttfp_ms === null ? '–' : `${exact(session.stream_ttfp_ms, 3)} ms`],
    ['stream RTF', session.stream_rtf === null ? '–' : exact(session.stream_rtf, 6)],
    ['errors', count(session.errors)],
  ];
  const width = Math.max(byId('sessions').closest('.scroll').clientWidth - 32, 280);
  return html(
    'div',
    { class: 'full' },
    html('dl', {}, ...facts.map(([name, value]) => html('div', {}, html('dt', {}, name), html('dd', {}, value)))),
    session.truncated
      ? html('p', { class: 'approximate' }, 'truncated: it reached a limit, or a better stream start came too late; its figures may be incomplete')
      : '',
    lanes(session, width) ?? html('p', { class: 'none' }, 'no response'),
    session.more_responses
      ? html('p', { class: 'words' }, `and ${plural(session.more_responses, 'more response')}`)
      : '',
  );
}
