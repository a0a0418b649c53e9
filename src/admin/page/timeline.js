// The timeline of a session on one line, and the signs it is made of.

import { svg } from './dom.js';
import { count, duration, plural } from './format.js';
import { linear } from './scale.js';

const line = (kind, x1, x2, y) => svg('line', { class: kind, x1, x2, y1: y, y2: y });
const edge = (x, y) => svg('line', { class: 'edge', x1: x, x2: x, y1: y - 6, y2: y + 6 });
const firstText = (x, y) => svg('path', { class: 'first-text', d: `M${x - 4} ${y - 8}h8l-4 7z` });
const firstAudio = (x, y) => svg('circle', { class: 'first-audio', cx: x, cy: y, r: 4 });
const audio = (x1, x2, y) => svg('rect', { class: 'audio', x: x1, y: y - 4, width: Math.max(x2 - x1, 1.5), height: 8 });
const cancelled = (x, y) => svg('path', { class: 'cancelled', d: `M${x - 4} ${y - 4}l8 8m0 -8l-8 8` });

/** The signs, for the legend: name and how it is drawn at a place. */
export const SIGNS = [
  ['start, end', (x, y) => [line('edge', x - 6, x + 6, y), edge(x - 6, y), edge(x + 6, y)]],
  ['response', (x, y) => [line('response', x - 8, x + 8, y)]],
  ['first text', (x, y) => [firstText(x, y)]],
  ['first audio', (x, y) => [firstAudio(x, y)]],
  ['audio packets', (x, y) => [audio(x - 8, x + 8, y)]],
  ['cancelled', (x, y) => [cancelled(x, y)]],
];

/** One response. Any of its times can be unknown. */
export function drawResponse(response, x, y) {
  const { created_ms, first_text_ms, first_audio_ms, last_audio_ms, ended_ms, status } = response;
  const begin = created_ms ?? first_audio_ms ?? first_text_ms;
  const end = ended_ms ?? last_audio_ms;
  return [
    begin === null || end === null ? null : line('response', x(begin), x(end), y),
    first_audio_ms === null || last_audio_ms === null ? null : audio(x(first_audio_ms), x(last_audio_ms), y),
    first_audio_ms === null ? null : firstAudio(x(first_audio_ms), y),
    first_text_ms === null ? null : firstText(x(first_text_ms), y),
    status !== 'cancelled' || ended_ms === null ? null : cancelled(x(ended_ms), y),
  ];
}

const TIMES = ['created_ms', 'first_text_ms', 'first_audio_ms', 'last_audio_ms', 'ended_ms'];

/** Where a session's line ends, in ms since the stream start; null where no time is known. */
export function endOf({ responses, duration_ms }) {
  const known = [duration_ms, ...responses.flatMap((response) => TIMES.map((name) => response[name]))];
  const times = known.filter((time) => time !== null);
  return times.length ? Math.max(...times, 1) : null;
}

/** The session on one line; null where no time is known. */
export function strip(session) {
  const end = endOf(session);
  if (end === null) return null;
  const [width, height, y] = [220, 24, 14];
  const x = linear([0, end], [8, width - 8]);
  return svg(
    'svg',
    { class: 'strip', role: 'img', 'aria-label': inWords(session), viewBox: `0 0 ${width} ${height}` },
    ...[line('edge', x(0), x(end), y), edge(x(0), y), edge(x(end), y)],
    ...session.responses.flatMap((response) => drawResponse(response, x, y)),
  );
}

function inWords({ responses, more_responses, end_reason }) {
  const first = (name) => responses.map((response) => response[name]).find((time) => time !== null) ?? null;
  const [text, audio] = [first('first_text_ms'), first('first_audio_ms')];
  const packets = responses.reduce((sum, response) => sum + response.audio_packets, 0);
  const cancels = responses.filter((response) => response.status === 'cancelled').length;
  return [
    plural(responses.length + more_responses, 'response'),
    text === null ? 'no text' : `first text after ${duration(text)}`,
    audio === null ? 'no audio' : `first audio after ${duration(audio)}`,
    plural(packets, 'audio packet'),
    `${count(cancels)} cancelled`,
    `ended: ${end_reason}`,
  ].join(', ');
}
