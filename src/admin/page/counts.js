// The counts of the view and of this replica, and how sessions ended.

import { byId, html, setChildren, svg } from './dom.js';
import { count, duration, NO_SAMPLE, percent, plural, windowName } from './format.js';

const HERE = 'this replica, now';

/** Draws what is counted; `part` is null where no session has finished in the window, and the window before the first run. */
export function showCounts(window, part, { sessions_open, lag, partitions, dead_letters }) {
  const letters = Object.entries(dead_letters);
  const all = letters.reduce((sum, [, records]) => sum + records, 0);
  const reasons = letters.map(([reason, records]) => `${reason} ${count(records)}`).join(', ');
  const restoring = partitions.restoring ? `, ${count(partitions.restoring)} restoring` : '';
  const behind = lag?.seconds ? `; ${duration(1000 * lag.seconds)} behind` : '';
  const none = window === null ? null : 0;
  setChildren(byId('tiles'), [
    tile('sessions', 'Sessions finished', part?.sessions ?? none, window && windowName(window)),
    tile('responses', 'Responses', part?.responses ?? none, 'of these sessions'),
    tile(
      'sessions_open',
      'Sessions open',
      sessions_open,
      `${HERE}; ${plural(partitions.running, 'partition')}${restoring}`,
    ),
    tile('lag', 'Records of lag', lag?.records, HERE + behind),
    tile(
      'dead_letters',
      'Dead letters',
      all,
      `this replica, since it started${reasons && `: ${reasons}; see them with `}`,
      all > 0 ? html('code', {}, 'duplex-collector dead-letters list') : null,
    ),
  ]);
}

function tile(name, title, value, note, more = null) {
  value ??= null;
  const isKnown = value !== null;
  return html(
    'li',
    { class: 'card tile' },
    html('span', { class: 'title' }, title),
    html('strong', { 'data-tile': name, 'data-value': value }, isKnown ? count(value) : '–'),
    html('span', { class: 'note' }, isKnown ? note : 'not known yet', more ?? ''),
  );
}

/** Draws how sessions ended, the most frequent reason first. */
export function showEnds(part) {
  const reasons = Object.entries(part?.sessions_by_end_reason ?? {}).sort(([, a], [, b]) => b - a);
  setChildren(
    byId('ends-list'),
    reasons.map(([reason, sessions]) => end(reason, sessions, sessions / part.sessions)),
  );
  byId('ends-none').hidden = reasons.length > 0;
}

function end(reason, sessions, share) {
  return html(
    'li',
    {},
    html('code', {}, reason),
    svg(
      'svg',
      { class: 'bar', viewBox: '0 0 100 8', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
      svg('rect', { class: 'track', width: 100, height: 8 }),
      svg('rect', { class: reason === 'closed' ? 'good' : 'bad', width: Math.max(100 * share, 0.5), height: 8 }),
    ),
    html('span', { 'data-reason': reason, 'data-value': sessions }, `${count(sessions)} (${percent(share)})`),
  );
}
