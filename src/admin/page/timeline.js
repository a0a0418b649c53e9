// Timelines of one session: all responses on one line, or a lane for each.

import { html, svg } from './dom.js';
import { count, duration, plural, short } from './format.js';
import { linear, ticks } from './scale.js';

/** The signs, for the legend: name and how it is drawn at a place. */
export const SIGNS = [
  ['start, end', (x, y) => [svg('line', { class: 'edge', x1: x - 6, x2: x + 6, y1: y, y2: y }), edge(x - 6, y), edge(x + 6, y)]],
  ['response', (x, y) => [svg('line', { class: 'response', x1: x - 8, x2: x + 8, y1: y, y2: y })]],
  ['first text', (x, y) => [firstText(x, y)]],
  ['first audio', (x, y) => [firstAudio(x, y)]],
  ['audio packets', (x, y) => [svg('rect', { class: 'audio', x: x - 8, y: y - 4, width: 16, height: 8 })]],
  ['cancelled', (x, y) => [cancelled(x, y)]],
];

const edge = (x, y) => svg('line', { class: 'edge', x1: x, x2: x, y1: y - 6, y2: y + 6 });
const firstText = (x, y) => svg('path', { class: 'first-text', d: `M${x - 4} ${y - 8}h8l-4 7z` });
const firstAudio = (x, y) => svg('circle', { class: 'first-audio', cx: x, cy: y, r: 4 });
const cancelled = (x, y) => svg('path', { class: 'cancelled', d: `M${x - 4} ${y - 4}l8 8m0 -8l-8 8` });

/** One response on a line. */
function draw(response, x, y) {
  const { created_ms: created, first_text_ms: text, first_audio_ms: first, last_audio_ms: last, ended_ms: ended } = response;
  const drawn = [];
  const begin = created ?? first ?? text;
  const finish = ended ?? last;
  if (begin !== null && finish !== null) drawn.push(svg('line', { class: 'response', x1: x(begin), x2: x(finish), y1: y, y2: y }));
  if (first !== null && last !== null) {
    drawn.push(svg('rect', { class: 'audio', x: x(first), y: y - 4, width: Math.max(x(last) - x(first), 1.5), height: 8 }));
  }
  if (first !== null) drawn.push(firstAudio(x(first), y));
  if (text !== null) drawn.push(firstText(x(text), y));
  if (response.status === 'cancelled' && ended !== null) drawn.push(cancelled(x(ended), y));
  return drawn;
}

const times = ({ created_ms, first_text_ms, first_audio_ms, last_audio_ms, ended_ms }) =>
  [created_ms, first_text_ms, first_audio_ms, last_audio_ms, ended_ms].filter((time) => time !== null);

/** Where the session's line ends, in ms since the stream start; null where no time is known. */
function length({ responses, duration_ms }) {
  const known = responses.flatMap(times);
  if (duration_ms !== null) known.push(duration_ms);
  return known.length ? Math.max(...known, 1) : null;
}

const first = (responses, time) => responses.map((response) => response[time]).find((value) => value !== null) ?? null;

function inWords(session) {
  const { responses, more_responses } = session;
  const text = first(responses, 'first_text_ms');
  const audio = first(responses, 'first_audio_ms');
  const packets = responses.reduce((sum, response) => sum + response.audio_packets, 0);
  const cancels = responses.filter((response) => response.status === 'cancelled').length;
  return [
    plural(responses.length + more_responses, 'response'),
    text === null ? 'no text' : `first text after ${duration(text)}`,
    audio === null ? 'no audio' : `first audio after ${duration(audio)}`,
    plural(packets, 'audio packet'),
    ...(cancels ? [`${count(cancels)} cancelled`] : []),
    `ended: ${session.end_reason}`,
  ].join(', ');
}

/** The session on one line; null where no time is known. */
export function strip(session, width = 220) {
  const end = length(session);
  if (end === null) return null;
  const height = 24;
  const y = height / 2 + 2;
  const x = linear([0, end], [8, width - 8]);
  return svg('svg', { class: 'strip', role: 'img', 'aria-label': inWords(session), viewBox: `0 0 ${width} ${height}` },
    svg('line', { class: 'edge', x1: x(0), x2: x(end), y1: y, y2: y }), edge(x(0), y), edge(x(end), y),
    ...session.responses.flatMap((response) => draw(response, x, y)));
}

/** A lane for each response, with a scale in seconds; null where no time is known. */
export function lanes(session, width) {
  const end = length(session);
  if (end === null || !session.responses.length) return null;
  const marks = ticks(end / 1000, Math.max(Math.floor(width / 90), 2));
  const x = linear([0, 1000 * marks.at(-1)], [10, width - 16]);
  const drawn = (height, ...children) => svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true' }, ...children);
  const grid = () => marks.map((second) => svg('line', { class: 'grid', x1: x(1000 * second), x2: x(1000 * second), y1: 0, y2: 24 }));
  const scale = marks.map((second) => svg('text', { class: 'tick', x: x(1000 * second), y: 12, 'text-anchor': 'middle' }, short(second)));
  return html('div', { class: 'lanes' },
    html('ol', {}, ...session.responses.map((response) =>
      html('li', {}, told(response), drawn(24, ...grid(), ...draw(response, x, 14))))),
    drawn(16, ...scale),
    html('p', { class: 'words' }, 'seconds since the stream start'));
}

/** One response in words. */
function told(response) {
  const { status, audio_packets, audio_duration_ms, created_ms, first_text_ms, first_audio_ms, speech_to_cancel_ms, ttft_source } = response;
  const since = (time) => (created_ms === null ? duration(time) : `+${duration(Math.max(time - created_ms, 0))}`);
  return [
    status,
    ...(first_text_ms === null ? [] : [`text ${since(first_text_ms)}`]),
    ...(first_audio_ms === null ? [] : [`audio ${since(first_audio_ms)}`]),
    `${plural(audio_packets, 'packet')}, ${duration(audio_duration_ms)}`,
    ...(speech_to_cancel_ms === null ? [] : [`${duration(speech_to_cancel_ms)} from speech to cancel`]),
    ...(ttft_source ? [`TTFT of the ${ttft_source}`] : []),
  ].join(' · ');
}
