// Draws the verdict, which the collector decides: whether traffic is healthy, and if not, what is wrong.

import { byId, html, setChildren, setText } from './dom.js';
import { plural, windowName } from './format.js';

const STATES = { good: 'fine', bad: 'wrong', unknown: 'not known' };

/** Letters of a value that has the room of two. */
const LONG = 40;

/** Draws the verdict, on what it is, and why this replica is not live or not ready. */
export function showVerdict({ state, headline, checks, notes }, basis, reasons) {
  byId('verdict').dataset.state = state;
  setText(byId('headline'), headline);
  document.title = `${headline} · duplex-collector`;
  setText(byId('basis'), basis);
  setChildren(
    byId('checks'),
    checks.map(({ name, title, state, value, objective }) =>
      html(
        'li',
        { 'data-check': name, 'data-state': state, class: value.length > LONG ? 'long' : null },
        html('span', { class: 'title' }, html('span', { class: 'hidden' }, `${STATES[state]}: `), title),
        html('strong', {}, value),
        html('span', { class: 'objective' }, objective),
      ),
    ),
  );
  showLines(byId('reasons'), reasons);
  showLines(byId('notes'), notes);
}

function showLines(list, lines) {
  list.hidden = lines.length === 0;
  setChildren(
    list,
    lines.map((line) => html('li', {}, line)),
  );
}

/** What the verdict is on; `part` is null where no session has finished in the view. */
export function basis({ complete, run, runs, view }, part) {
  if (!part && !complete) return 'The bundles topic has not been read to its end yet. Figures appear once it has.';
  if (!run)
    return runs.length
      ? 'This run is not shown: it has no finished session yet, or newer runs took its place.'
      : 'No session has finished.';
  const window = view && view.window !== 'all' ? `${windowName(view.window)} of ` : '';
  const model = view && view.model !== 'all' ? `, model “${view.model}”` : '';
  const where = `in ${window}the run “${run.run_id}”${model}`;
  if (!part?.sessions) {
    const whole = run.parts.find(({ model, window }) => model === view?.model && window === 'all');
    const past = whole ? ` The whole run has ${plural(whole.sessions, 'session')}.` : '';
    return `No session finished ${where}.${past}`;
  }
  return `${plural(part.sessions, 'session')} and ${plural(part.responses, 'response')} ${where}.`;
}
