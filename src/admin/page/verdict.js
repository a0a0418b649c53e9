// Says whether traffic is healthy, and if not, what is wrong.

import { byId, html, setChildren, setText } from './dom.js';
import { count, duration, exact, NO_SAMPLE, percent, plural, windowName } from './format.js';

/** Where healthy ends. TTFT, RTF and lag as in deploy/prometheus/alerts.yml. */
export const OBJECTIVES = {
  response_ttft: { limit: 1000, share: 0.05 },
  response_ttfp: { limit: 2000, quantile: 'p99' },
  response_rtf: { limit: 1, quantile: 'p99' },
  not_closed: { share: 0.05 },
  lag: { seconds: 60 },
};

const { response_ttft: ttft, response_ttfp: ttfp, response_rtf: rtf, not_closed: notClosed, lag } = OBJECTIVES;

/** What is looked at, in order: each gives what was found and whether it is bad, or null without a sample. */
const CHECKS = [
  {
    title: 'This replica',
    wrong: 'replica not ready',
    objective: 'has to be live and ready',
    look: ({ live, ready }) => {
      const value = live.passes ? (ready.passes ? 'live, ready' : 'not ready') : 'not live';
      return { value, bad: value !== 'live, ready' };
    },
  },
  {
    title: 'First text (TTFT)',
    wrong: 'slow first text',
    objective: `at most ${percent(ttft.share)} of responses`,
    look: ({ view }) => {
      const bins = view?.shapes.duplex_response_ttft_ms ?? [];
      const samples = (bins) => bins.reduce((sum, bin) => sum + bin.count, 0);
      if (!samples(bins)) return null;
      // A bin begins at the limit, which is a power of ten, but for rounding.
      const slow = samples(bins.filter((bin) => bin.from > 0.999 * ttft.limit)) / samples(bins);
      return { value: `${percent(slow)} over ${duration(ttft.limit)}`, bad: slow > ttft.share };
    },
  },
  {
    title: 'First audio (TTFP)',
    wrong: 'slow first audio',
    objective: `at most ${count(ttfp.limit)} ms`,
    look: (_, part) => ofQuantile(part?.figures.duplex_response_ttfp_ms, ttfp, (value) => `${exact(value, 3)} ms`),
  },
  {
    title: 'Real time (RTF)',
    wrong: 'slower than real time',
    objective: `at most ${rtf.limit}`,
    look: (_, part) => ofQuantile(part?.figures.duplex_response_rtf, rtf, (value) => exact(value, 6)),
  },
  {
    title: 'Session ends',
    wrong: 'broken sessions',
    objective: `at most ${percent(notClosed.share)}`,
    look: (_, part) => {
      if (!part?.sessions) return null;
      const share = (part.sessions - (part.sessions_by_end_reason.closed ?? 0)) / part.sessions;
      return { value: `${percent(share)} not closed`, bad: share > notClosed.share };
    },
  },
  {
    title: 'Lag',
    wrong: 'this replica lags',
    objective: `at most ${lag.seconds} s, this replica`,
    none: 'not known yet',
    look: (status) =>
      status.lag && { value: duration(1000 * status.lag.seconds), bad: status.lag.seconds > lag.seconds },
  },
];

const ofQuantile = (figures, { limit, quantile }, write) =>
  figures ? { value: `${quantile} ${write(figures[quantile])}`, bad: figures[quantile] > limit } : null;

const STATES = { good: 'fine', bad: 'wrong', unknown: 'not known' };

/** Draws the verdict on a part of a run; `part` is null where no session has finished in it. */
export function showVerdict(status, part) {
  const found = CHECKS.map((check) => ({ check, seen: check.look(status, part) }));
  const wrong = found.filter(({ seen }) => seen?.bad).map(({ check }) => check.wrong);
  const headline = wrong.length ? sentence(wrong.join(', ')) : part?.sessions ? 'Healthy' : 'No traffic to judge';
  byId('verdict').dataset.state = wrong.length ? 'bad' : part?.sessions ? 'good' : 'unknown';
  setText(byId('headline'), headline);
  document.title = `${headline} · duplex-collector`;
  setText(byId('basis'), basis(status, part));
  setChildren(
    byId('checks'),
    found.map(({ check, seen }) => {
      const state = seen ? (seen.bad ? 'bad' : 'good') : 'unknown';
      return html(
        'li',
        { 'data-state': state },
        html('span', { class: 'title' }, html('span', { class: 'hidden' }, `${STATES[state]}: `), check.title),
        html('strong', {}, seen?.value ?? check.none ?? NO_SAMPLE),
        html('span', { class: 'objective' }, check.objective),
      );
    }),
  );
  const reasons = [status.live, status.ready].flatMap(({ passes, lines }) => (passes ? [] : lines));
  byId('reasons').hidden = reasons.length === 0;
  setChildren(
    byId('reasons'),
    reasons.map((line) => html('li', {}, line)),
  );
}

const sentence = (words) => words[0].toUpperCase() + words.slice(1);

function basis({ complete, run, runs, view }, part) {
  if (!part && !complete) return 'The bundles topic has not been read to its end yet. Figures appear once it has.';
  if (!run)
    return runs.length
      ? 'This run is not shown: it has no finished session yet, or newer runs took its place.'
      : 'No session has finished.';
  const window = view && view.window !== 'all' ? `${windowName(view.window)} of ` : '';
  const model = view && view.model !== 'all' ? `, model “${view.model}”` : '';
  const where = `in ${window}the run “${run.run_id}”${model}`;
  if (!part?.sessions) return `No session finished ${where}.`;
  return `${plural(part.sessions, 'session')} and ${plural(part.responses, 'response')} ${where}.`;
}
