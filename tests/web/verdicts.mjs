// Answers of /status, each a step past one objective, and what the page says of them.

/** The figures that are judged. */
const partOf = (status) => status.run.parts.find((part) => part.model === 'all' && part.window === status.view.window);

/** Makes every figure the worst that is still fine. */
export const healthy = (status) => {
  status.live = { passes: true, lines: ['alive'] };
  status.ready = { passes: true, lines: ['ready'] };
  status.lag = { records: 3, seconds: 60 };
  const part = partOf(status);
  part.figures.duplex_response_ttfp_ms.p99 = 2000;
  part.figures.duplex_response_rtf.p99 = 1;
  part.sessions = 100;
  part.sessions_by_end_reason = { closed: 95, expired: 5 };
  status.view.shapes.duplex_response_ttft_ms = [
    { from: 865.964, to: 1000, count: 95 },
    { from: 1000, to: 1154.78, count: 5 },
  ];
};

/** Headlines and what makes a status that was healthy deserve them. */
export const VERDICTS = [
  ['Healthy', () => {}],
  [
    'Replica not ready',
    (status) => {
      status.live = { passes: false, lines: ['worker 0: not polled for 130 s'] };
    },
  ],
  [
    'Replica not ready',
    (status) => {
      status.ready = { passes: false, lines: ['partition 3 restoring'] };
    },
  ],
  [
    'Slow first text',
    (status) => {
      status.view.shapes.duplex_response_ttft_ms[1].count = 6;
    },
  ],
  [
    'Slow first audio',
    (status) => {
      partOf(status).figures.duplex_response_ttfp_ms.p99 = 2000.001;
    },
  ],
  [
    'Slower than real time',
    (status) => {
      partOf(status).figures.duplex_response_rtf.p99 = 1.000001;
    },
  ],
  [
    'Broken sessions',
    (status) => {
      partOf(status).sessions_by_end_reason = { closed: 94, expired: 6 };
    },
  ],
  [
    'This replica lags',
    (status) => {
      status.lag.seconds = 60.1;
    },
  ],
  [
    'Slower than real time, broken sessions',
    (status) => {
      partOf(status).figures.duplex_response_rtf.p99 = 3;
      partOf(status).sessions_by_end_reason = { idle_timeout: 100 };
    },
  ],
  [
    'No traffic to judge',
    (status) => {
      Object.assign(partOf(status), { sessions: 0, responses: 0, sessions_by_end_reason: {}, figures: {} });
      Object.assign(status.view, { slots: [], shapes: {} });
    },
  ],
];
