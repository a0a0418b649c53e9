// Asks for /status every two seconds and draws it.

import { byId, setOptions, setText } from './dom.js';
import { ago, dateAndTime, timeOfDay } from './format.js';
import { showCards } from './cards.js';
import { showCounts, showEnds } from './counts.js';
import { showLegend, showSessions } from './sessions.js';
import { showTraffic } from './traffic.js';
import { basis, showVerdict } from './verdict.js';

const INTERVAL_MS = 2_000;
/** An answer that takes longer is none. */
const TIMEOUT_MS = 10_000;

/** What is looked at; the page's address has it too. An empty run is the latest, an empty window the shortest. */
const asked = { run: '', model: '', window: '', of: '' };
const opened = Date.now();
let status = null;
let answered = null;
let request = new AbortController();
let timer = null;
const drawn = new Map();

async function poll() {
  clearTimeout(timer);
  request.abort();
  request = new AbortController();
  const { signal } = request;
  try {
    const answer = await ask(signal);
    if (signal.aborted) return;
    status = answer;
    answered = Date.now();
    byId('stale').hidden = true;
    show();
  } catch (error) {
    if (signal.aborted) return;
    showFailure(error);
  }
  if (!document.hidden) timer = setTimeout(poll, INTERVAL_MS);
}

async function ask(signal) {
  const query = new URLSearchParams();
  for (const name of ['run', 'model', 'window']) if (asked[name]) query.set(name, asked[name]);
  const response = await fetch(`/status?${query}`, {
    signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
  });
  if (!response.ok) throw new Error(`it answers ${response.status}`);
  return response.json();
}

function showFailure(error) {
  const since = answered
    ? `the figures stand still since ${timeOfDay(answered)} UTC`
    : `none since this page was opened at ${timeOfDay(opened)} UTC`;
  setText(byId('stale'), `No answer from the collector (${reason(error)}): ${since}. The page goes on asking.`);
  byId('stale').hidden = false;
  document.title = 'No answer · duplex-collector';
  // It has the title back with the next answer.
  drawn.delete(showVerdict);
}

function reason(error) {
  if (error instanceof TypeError) return 'it can’t be reached';
  return error.name === 'TimeoutError' ? `it takes over ${TIMEOUT_MS / 1000} s` : error.message;
}

function show() {
  const { run, view } = status;
  const isViewed = ({ model, window }) => model === view?.model && window === view?.window;
  const part = run?.parts.find(isViewed) ?? null;
  showSelects();
  const reasons = [status.live, status.ready].flatMap(({ passes, lines }) => (passes ? [] : lines));
  draw(showVerdict, status.verdict, basis(status, part), reasons);
  byId('empty').hidden = status.runs.length > 0 || !status.complete || status.verdict.state === 'bad';
  for (const id of ['figures', 'traffic', 'ends', 'last']) byId(id).hidden = run === null;
  const { sessions_open, lag, partitions, dead_letters } = status;
  const here = { sessions_open, lag, partitions, dead_letters };
  draw(showCounts, view?.window ?? null, part && { sessions: part.sessions, responses: part.responses }, here);
  const limits = Object.fromEntries(
    status.verdict.checks.flatMap(({ plotted }) => (plotted ? [[plotted.measure, plotted.limit]] : [])),
  );
  draw(showCards, asked.of || 'response', part, view, limits);
  draw(showTraffic, view);
  draw(showEnds, part);
  showSessions(status.last_sessions);
  setText(byId('version'), status.version);
  const last = run?.last_event_ms ?? null;
  const when = last === null ? 'no event yet' : `last event ${dateAndTime(last)}, ${ago(status.now_ms - last)}`;
  const more = status.runs_not_shown ? `; ${status.runs_not_shown} more runs are on the topic and not shown` : '';
  setText(byId('updated'), when + more);
  byId('report').href = run ? `/report?${new URLSearchParams({ run: run.run_id })}` : '/report';
}

/** Draws what changed only: figures that someone has marked to copy stay marked. */
function draw(show, ...values) {
  const now = JSON.stringify(values);
  if (drawn.get(show) !== now) show(...values);
  drawn.set(show, now);
}

function showSelects() {
  const { runs, run, windows, view } = status;
  const models = [...new Set(run?.parts.map(({ model }) => model) ?? [])].filter((model) => model !== 'all');
  const known = (names, name) => (name && !names.includes(name) ? [...names, name] : names).map((name) => [name, name]);
  const select = byId('selects').elements;
  setOptions(
    select.run,
    [['', runs.length ? `latest (${runs[0]})` : 'none yet'], ...known(runs, asked.run)],
    asked.run,
  );
  setOptions(select.model, [['', 'all'], ...known(models, asked.model)], asked.model);
  setOptions(
    select.window,
    known([...windows, 'all'], asked.window).map(([name]) => [name, name === 'all' ? 'whole run' : `last ${name}`]),
    asked.window || view?.window || windows[0] || 'all',
  );
}

function change(name, value) {
  asked[name] = value;
  if (name === 'run') asked.model = '';
  const query = new URLSearchParams(Object.entries(asked).filter(([, value]) => value));
  history.replaceState(null, '', query.size ? `?${query}` : location.pathname);
}

function begin() {
  const query = new URLSearchParams(location.search);
  for (const name of Object.keys(asked)) asked[name] = query.get(name) ?? '';
  if (asked.of === 'stream') byId('of').querySelector('[value=stream]').checked = true;
  else asked.of = '';
  showLegend();
  byId('selects').addEventListener('change', ({ target }) => {
    change(target.name, target.value);
    poll();
  });
  byId('of').addEventListener('change', ({ target }) => {
    change('of', target.value === 'stream' ? 'stream' : '');
    if (status) show();
  });
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) clearTimeout(timer);
    else poll();
  });
  let width = innerWidth;
  addEventListener('resize', () => {
    if (innerWidth === width) return;
    width = innerWidth;
    drawn.clear();
    if (status) show();
  });
  poll();
}

begin();
