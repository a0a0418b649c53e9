// Numbers and times as the page writes them: times in UTC, as the collector's verdict and log have them.

const integer = new Intl.NumberFormat('en');
const rounded = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 });
const tenths = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const hundredths = new Intl.NumberFormat('en', { maximumFractionDigits: 2 });
const clock = new Intl.DateTimeFormat('en', {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
  timeZone: 'UTC',
});
const minute = new Intl.DateTimeFormat('en', { hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZone: 'UTC' });
// As in ISO 8601, with a blank.
const day = new Intl.DateTimeFormat('sv', { dateStyle: 'short', timeStyle: 'medium', timeZone: 'UTC' });

export const NO_SAMPLE = 'no sample';

export const count = (value) => integer.format(value);

/** With all its digits, and zeros up to those that its kind has: 3 for milliseconds, 6 for ratios. */
export function exact(value, digits) {
  const padded = value.toFixed(digits);
  return Number(padded) === value ? padded : String(value);
}

/** To three digits. */
export const short = (value) => rounded.format(value);

export const percent = (share) => `${hundredths.format(100 * share)} %`;

export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? '' : 's'}`;

export const timeOfDay = (ms) => clock.format(ms);

export const hourAndMinute = (ms) => minute.format(ms);

export const dateAndTime = (ms) => `${day.format(ms)} UTC`;

/** A length of time in its two largest units: "850 ms", "95.2 s", "3 min 20 s", "2 h 5 min", "3 d 4 h". */
export function duration(ms) {
  if (ms === 0) return '0 s';
  if (ms < 1000) return `${rounded.format(ms)} ms`;
  if (ms < 120_000) return `${tenths.format(ms / 1000)} s`;
  const seconds = Math.round(ms / 1000);
  const units = [
    ['d', 86_400],
    ['h', 3_600],
    ['min', 60],
    ['s', 1],
  ];
  const first = units.findIndex(([, length]) => seconds >= length);
  const [[name, length], [nextName, nextLength]] = units.slice(first, first + 2);
  const rest = Math.floor((seconds % length) / nextLength);
  return `${Math.floor(seconds / length)} ${name}${rest ? ` ${rest} ${nextName}` : ''}`;
}

/** How long ago, to the second. */
export const ago = (ms) => (ms < 2_000 ? 'just now' : `${duration(1000 * Math.floor(ms / 1000))} ago`);

/** A window by its name in the configuration. */
export const windowName = (name) => (name === 'all' ? 'the whole run' : `the last ${name}`);
