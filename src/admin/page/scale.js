// Scales and their ticks.

/** Maps a value of the domain to a place between `start` and `end`. */
export const linear =
  ([low, high], [start, end]) =>
  (value) =>
    start + ((value - low) / (high - low || 1)) * (end - start);

export function logarithmic([low, high], range) {
  const place = linear([Math.log10(low), Math.log10(high)], range);
  return (value) => place(Math.log10(value));
}

/** Round values from 0 up to at least `max`, about `wanted` steps. */
export function ticks(max, wanted = 4) {
  const raw = max / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw);
  return Array.from({ length: Math.ceil(max / step - 1e-9) + 1 }, (_, at) => Number((at * step).toPrecision(12)));
}

/** Round values between two, apart by decades or, in a short domain, by 1, 2, 5. */
export function logTicks([low, high], wanted = 6) {
  const decades = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1)
    decades.push(10 ** power);
  const within = (values) => values.filter((value) => value >= low * 0.999 && value <= high * 1.001);
  const fine = within(
    decades.flatMap((decade) => [1, 2, 5].map((factor) => Number((decade * factor).toPrecision(12)))),
  );
  if (fine.length > wanted) return within(decades);
  // Less than two: as on a linear scale.
  return fine.length > 1
    ? fine
    : ticks(high, Math.ceil((3 * high) / (high - low))).filter((value) => value >= low && value <= high);
}

const TIME_STEPS = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400].map(
  (s) => 1000 * s,
);

/** Times of day to mark between two, `most` or fewer. */
export function timeTicks([start, end], most) {
  const step = TIME_STEPS.find((step) => (end - start) / step <= most) ?? TIME_STEPS.at(-1);
  const times = [];
  for (let time = Math.ceil(start / step) * step; time <= end; time += step) times.push(time);
  return { times, step };
}
