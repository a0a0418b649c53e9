// The timeline of a session in full: a lane for each response, in words and drawn.

import { html, svg } from './dom.js';
import { duration, plural, short } from './format.js';
import { linear, ticks } from './scale.js';
import { drawResponse, endOf } from './timeline.js';

const HEIGHT = 24;

/** The lanes over a scale in seconds; null where no time is known. */
export function lanes(session, width) {
  const end = endOf(session);
  if (end === null || !session.responses.length) return null;
  const seconds = ticks(end / 1000, Math.max(Math.floor(width / 90), 2));
  const x = linear([0, 1000 * seconds.at(-1)], [10, width - 16]);
  const places = seconds.map((second) => x(1000 * second));
  // What is drawn, the words say.
  const drawing = (height, ...children) =>
    svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true' }, ...children);
  const lane = (response) => {
    const grid = places.map((place) => svg('line', { class: 'grid', x1: place, x2: place, y1: 0, y2: HEIGHT }));
    return html('li', {}, inWords(response), drawing(HEIGHT, ...grid, ...drawResponse(response, x, 14)));
  };
  const scale = places.map((place, at) =>
    svg('text', { class: 'tick', x: place, y: 12, 'text-anchor': 'middle' }, short(seconds[at])),
  );
  return html(
    'div',
    { class: 'lanes' },
    html('ol', {}, ...session.responses.map(lane)),
    drawing(16, ...scale),
    html('p', { class: 'words' }, 'seconds since the stream start'),
  );
}

function inWords(response) {
  const { status, created_ms, first_text_ms, first_audio_ms, audio_packets, audio_duration_ms } = response;
  const { speech_to_cancel_ms, ttft_source } = response;
  const since = (time) => (created_ms === null ? duration(time) : `+${duration(Math.max(time - created_ms, 0))}`);
  return [
    status,
    first_text_ms === null ? null : `text ${since(first_text_ms)}`,
    first_audio_ms === null ? null : `audio ${since(first_audio_ms)}`,
    `${plural(audio_packets, 'packet')}, ${duration(audio_duration_ms)}`,
    speech_to_cancel_ms === null ? null : `${duration(speech_to_cancel_ms)} from speech to cancel`,
    ttft_source === null ? null : `TTFT of the ${ttft_source}`,
  ]
    .filter((words) => words !== null)
    .join(' · ');
}
