// Plots how many sessions finish, and how many events they had, over event time.

import { areaOf, axisOf, frame, horizontal, plot, room, timesOf, vertical } from './axes.js';
import { byId, setChildren, svg } from './dom.js';
import { count, plural, short, timeOfDay } from './format.js';
import { linear, ticks } from './scale.js';

const RATES = [
  { name: 'sessions', word: 'session', caption: 'Sessions that finish, per second' },
  { name: 'events', word: 'event', caption: 'Events of these sessions, per second' },
];

/** Draws both rates of the view. */
export function showTraffic(view) {
  const plots = byId('traffic-plots');
  setChildren(
    plots,
    RATES.map((rate, at) => {
      const width = room(plots.children[at], plots.clientWidth > 600 ? plots.clientWidth / 2 - 8 : plots.clientWidth);
      const { drawn, said } = bars(rate, view, width);
      return plot([rate.caption], drawn, said);
    }),
  );
}

function bars({ name, word, caption }, view, width) {
  const slots = view?.slots.filter((slot) => slot[name] > 0) ?? [];
  if (!slots.length) return { drawn: null };
  const { slot_ms: slotMs } = view;
  const rate = (slot) => slot[name] / (slotMs / 1000);
  const highest = Math.max(...slots.map(rate));
  const domain = timesOf(view, slots[0].start_ms);
  const marks = ticks(highest, 3);
  const area = areaOf(width, 12);
  const x = linear(domain, [area.left, area.right]);
  const y = linear([0, marks.at(-1)], [area.bottom, area.top]);
  const inWords = (slot) =>
    `${timeOfDay(slot.start_ms)}: ${plural(slot[name], word)} in ${slotMs / 1000} s, ${short(rate(slot))} per second`;
  const words = [
    `${caption}, ${plural(slots.length, 'slot')} of ${slotMs / 1000} s`,
    `${timeOfDay(domain[0])} to ${timeOfDay(domain[1])}`,
    `${count(slots.reduce((sum, slot) => sum + slot[name], 0))} in all, at most ${short(highest)} per second`,
  ];
  const drawn = frame(words, width, [
    ...vertical('per second', marks, y, area),
    ...horizontal(...axisOf(domain, x), area),
    ...slots.map((slot) => {
      const left = x(slot.start_ms);
      const wide = Math.max(x(slot.start_ms + slotMs) - left - 1, 1.5);
      // What is little is seen as well.
      const top = Math.min(y(rate(slot)), area.bottom - 1.5);
      const place = { x: left, y: top, width: wide, height: area.bottom - top };
      return svg('rect', { class: 'bin', 'data-words': inWords(slot), ...place });
    }),
  ]);
  return { drawn, said: inWords(slots.at(-1)) };
}
