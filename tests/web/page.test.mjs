// The status page in a browser, served by the demo while its traffic flows.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { changeStatus, Demo, launch, lowContrast, newPage, STATUS, values, violations } from './support.mjs';

const FIGURES = ['count', 'mean', 'p50', 'p90', 'p99', 'max'];
const MEASURES = { response: ['ttft_ms', 'ttfp_ms', 'rtf'], stream: ['ttft_ms', 'ttfp_ms', 'rtf'] };

let demo;
let browser;

before(async () => {
  [demo, browser] = await Promise.all([Demo.start(), launch()]);
});

after(async () => {
  await browser?.close();
  assert.equal(await demo?.stop(), 0, 'the demo drains');
});

/** Opens the page, at first with the whole run: a demo whose traffic has ended leaves a window. Waits for its first answer. */
async function open(query = '?window=all', options = {}, change = null) {
  const page = await newPage(browser, demo.page, options);
  if (change) await changeStatus(page, change);
  const response = await page.goto(demo.page + query);
  await page.waitForFunction(() => document.getElementById('version').textContent !== '');
  return Object.assign(page, { response });
}

const tile = (page, name) => page.locator(`[data-tile=${name}]`).getAttribute('data-value').then(Number);

const above = (page, name, value) =>
  page.waitForFunction(
    ([name, value]) => Number(document.querySelector(`[data-tile=${name}]`).dataset.value) > value,
    [name, value],
  );

describe('while traffic flows', () => {
  test('figures, plots and sessions follow it without a fault', async () => {
    const page = await open();
    await above(page, 'sessions', 0);
    const [sessions, plot, session] = [await tile(page, 'sessions'), await shape(page), await firstSession(page)];
    await above(page, 'sessions', sessions);
    await page.waitForFunction(
      (plot) => document.querySelector('[data-measure] svg:has(.bin)').ariaLabel !== plot,
      plot,
    );
    await page.waitForFunction((session) => document.querySelector('#sessions th').textContent !== session, session);
    assert.deepEqual(page.faults, []);
    await page.close();
  });
});

const shape = (page) => page.locator('[data-measure] svg:has(.bin)').first().getAttribute('aria-label');
const firstSession = (page) => page.locator('#sessions th').first().textContent();

describe('once it has ended', () => {
  before(() => demo.played());

  test('every figure is that of the report', async () => {
    const [run] = (await demo.get('/report')).runs;
    const page = await open('?window=all');
    await page.waitForFunction(
      (sessions) => document.querySelector('[data-tile=sessions]').dataset.value === String(sessions),
      run.sessions,
    );
    for (const window of ['all', '1h']) {
      for (const of of ['response', 'stream']) {
        await page.locator('select[name=window]').selectOption(window);
        await page.locator(`input[value=${of}]`).check();
        const title = window === 'all' ? 'the whole run' : `the last ${window}`;
        await page
          .locator(`[data-measure^=duplex_${of}]`, { hasText: `Shape, ${title}` })
          .nth(2)
          .waitFor();
        const part = run.parts.find((part) => part.model === 'all' && part.window === window);
        const figures = MEASURES[of].flatMap((name) =>
          FIGURES.map((figure) => [`duplex_${of}_${name} ${figure}`, part.figures[`duplex_${of}_${name}`][figure]]),
        );
        const shown = await values(page);
        assert.deepEqual(shown.figures, Object.fromEntries(figures));
        assert.deepEqual(shown.ends, part.sessions_by_end_reason);
        assert.deepEqual([shown.tiles.sessions, shown.tiles.responses], [part.sessions, part.responses]);
        // Three digits to look at, all of them for who points at it.
        const written = await page
          .locator('[data-figure]')
          .evaluateAll((nodes) => nodes.map((node) => [node.textContent, node.title, Number(node.dataset.value)]));
        for (const [text, title, value] of written) {
          const shown = Number(text.replaceAll(',', ''));
          if (title) assert.equal(Number.parseFloat(title), value);
          assert.equal(shown, title ? Number(value.toPrecision(3)) : value);
        }
      }
    }
    assert.deepEqual(page.faults, []);
    await page.close();
  });

  test('the last sessions are those of the status, with a timeline each', async () => {
    const { last_sessions: sessions } = await demo.get('/status');
    const page = await open();
    const ids = await page.locator('#sessions th').allTextContents();
    assert.deepEqual(
      ids,
      sessions.map((session) => session.session_id),
    );
    const drawn = await page
      .locator('#sessions .strip')
      .evaluateAll((strips) =>
        strips.map((strip) =>
          ['.first-text', '.first-audio', '.audio', '.cancelled'].map((sign) => strip.querySelectorAll(sign).length),
        ),
      );
    const count = (session, has) => session.responses.filter(has).length;
    assert.deepEqual(
      drawn,
      sessions.map((session) => [
        count(session, (response) => response.first_text_ms !== null),
        count(session, (response) => response.first_audio_ms !== null),
        count(session, (response) => response.last_audio_ms !== null),
        count(session, (response) => response.status === 'cancelled'),
      ]),
    );
    const longest = sessions.reduce((a, b) => (a.responses.length < b.responses.length ? b : a));
    await page.getByRole('button', { name: longest.session_id }).click();
    const lanes = await page.locator('.lanes li').allTextContents();
    assert.equal(lanes.length, longest.responses.length);
    lanes.forEach((lane, at) =>
      assert.match(
        lane,
        new RegExp(`^${longest.responses[at].status} .* ${longest.responses[at].audio_packets} packets?, `),
      ),
    );
    await page.close();
  });

  test('a row that was opened by the keyboard stays open and keeps the focus when another comes', async () => {
    let isLater = false;
    const page = await open(undefined, {}, (status) => {
      const [latest, ...others] = status.last_sessions;
      status.last_sessions = isLater ? [latest, ...others] : others;
    });
    const row = page.locator('#sessions .open').first();
    const id = await row.textContent();
    await row.focus();
    await page.keyboard.press('Enter');
    isLater = true;
    await page.waitForFunction((id) => document.querySelector('#sessions .open').textContent !== id, id);
    const [focused, isOpen] = await page.evaluate(() => [
      document.activeElement.textContent,
      document.activeElement.ariaExpanded,
    ]);
    assert.deepEqual([focused, isOpen], [id, 'true']);
    assert.ok(await page.locator('.full').isVisible());
    await page.close();
  });

  for (const [name, options] of [
    ['light', { colorScheme: 'light' }],
    ['dark', { colorScheme: 'dark' }],
    ['on a phone', { viewport: { width: 390, height: 844 } }],
    ['on a phone, dark', { viewport: { width: 390, height: 844 }, colorScheme: 'dark' }],
  ]) {
    test(`it is accessible: ${name}`, async () => {
      const page = await open(undefined, options);
      await page.locator('#sessions .open').first().click();
      assert.deepEqual(await violations(page), []);
      const { scroll, inner } = await page.evaluate(() => ({
        scroll: document.documentElement.scrollWidth,
        inner: innerWidth,
      }));
      assert.equal(scroll, inner, 'no horizontal scroll');
      assert.deepEqual(await lowContrast(page), []);
      await page.close();
    });
  }

  test('on a phone the table of sessions keeps TTFT, TTFP and RTF, and fits', async () => {
    const page = await open(undefined, { viewport: { width: 390, height: 844 } });
    assert.deepEqual(
      (await page.locator('thead th:visible').allTextContents()).slice(2),
      ['Stream TTFT, ms', 'Stream TTFP, ms', 'Stream RTF'],
    );
    const { scroll, client } = await page.locator('.scroll').evaluate((table) => ({
      scroll: table.scrollWidth,
      client: table.clientWidth,
    }));
    assert.equal(scroll, client);
    await page.close();
  });

  test('dead letters are told by reason, with the command that shows them', async () => {
    const page = await open(undefined, {}, (status) => {
      status.dead_letters = { invalid_json: 4711, too_deep: 2 };
    });
    const tile = await page.locator('.tile', { hasText: 'Dead letters' }).innerText();
    assert.match(tile, /4,713[^]*invalid_json 4,711, too_deep 2[^]*duplex-collector dead-letters list/);
    await page.close();
  });

  test('what is chosen is in the address', async () => {
    const page = await open();
    await page.locator('select[name=window]').selectOption('1h');
    await page.locator('input[value=stream]').check();
    await page.locator('select[name=model]').selectOption({ index: 1 });
    const model = await page.locator('select[name=model]').inputValue();
    const query = Object.fromEntries(new URL(page.url()).searchParams);
    assert.deepEqual(query, { window: '1h', of: 'stream', model });
    await page.reload();
    await page.locator('[data-measure=duplex_stream_rtf]', { hasText: 'Shape, the last 1h' }).waitFor();
    assert.equal(await page.locator('select[name=model]').inputValue(), model);
    assert.match(
      await page.locator('#basis').textContent(),
      new RegExp(`in the last 1h of the run “demo”, model “${model}”`),
    );
    await page.close();
  });

  test('ids and models are shown as text', async () => {
    const hostile = '<img src=x onerror="window.taken=1"><script>window.taken=1</script>';
    const page = await open(undefined, {}, (status) => {
      status.runs = [hostile];
      status.run.run_id = hostile;
      status.run.parts.forEach((part) => {
        if (part.model !== 'all') part.model = hostile;
      });
      status.last_sessions[0].session_id = hostile;
      status.last_sessions[0].model = hostile;
      status.last_sessions[0].end_reason = hostile;
      status.ready = { passes: false, lines: [hostile] };
      status.dead_letters = { [hostile]: 1 };
      status.verdict.headline = hostile;
      status.verdict.notes = [hostile];
      status.verdict.checks[0].value = hostile;
    });
    await page.getByRole('button', { name: hostile }).click();
    for (const place of [
      '#headline',
      '#checks',
      '#notes',
      '#basis',
      '#sessions th',
      '#sessions .reason',
      '.full',
      '#reasons',
      'select[name=run]',
      'select[name=model]',
      '#tiles',
    ]) {
      assert.ok((await page.locator(place).first().textContent()).includes(hostile), place);
    }
    assert.equal(await page.locator('main img, main script').count(), 0);
    assert.equal(await page.evaluate(() => window.taken), undefined);
    assert.deepEqual(page.faults, []);
    await page.close();
  });

  test('its policy keeps out what is not its own', async () => {
    const page = await open();
    const headers = page.response.headers();
    const policy =
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    assert.ok(headers['content-security-policy'].startsWith(policy), headers['content-security-policy']);
    assert.equal(headers['referrer-policy'], 'no-referrer');
    const thrown = await page.evaluate(() => {
      try {
        document.body.insertAdjacentHTML('beforeend', '<b>markup</b>');
        return null;
      } catch (error) {
        return error.name;
      }
    });
    assert.equal(thrown, 'TypeError', 'no string becomes markup');
    await page.close();
  });

  test('what did not change stays as it is, so that it can be marked to copy', async () => {
    let first = null;
    let answers = 0;
    const page = await open(undefined, {}, (status) => {
      first ??= structuredClone(status);
      Object.assign(status, first, { now_ms: status.now_ms });
      answers += 1;
    });
    const drawn = await page.locator('#tiles li, #checks li, #figures dd').elementHandles();
    const before = answers;
    await page.waitForResponse(STATUS);
    await page.waitForResponse(STATUS);
    assert.ok(answers > before);
    for (const node of drawn) assert.ok(await node.evaluate((node) => node.isConnected), await node.innerText());
    await page.close();
  });

  test('it says since when the figures stand still, and goes on by itself', async () => {
    const page = await open();
    const stale = page.getByRole('alert');
    await page.route(STATUS, (route) => route.fulfill({ status: 503, body: 'draining' }));
    await stale.filter({ hasText: /answers 503.*stand still since \d\d:\d\d:\d\d UTC/ }).waitFor();
    await page.unroute(STATUS);
    await page.route(STATUS, (route) => route.abort('connectionrefused'));
    await stale.filter({ hasText: 'can’t be reached' }).waitFor();
    assert.match(await page.title(), /^No answer/);
    await page.unroute(STATUS);
    await changeStatus(page, (status) => {
      status.sessions_open = 4711;
    });
    await page.locator('[data-tile=sessions_open][data-value="4711"]').waitFor();
    assert.ok(await stale.isHidden());
    assert.doesNotMatch(await page.title(), /^No answer/);
    await page.close();
  });

  test('it asks one question at a time, and none while it is hidden', async () => {
    const page = await newPage(browser, demo.page);
    const held = [];
    let asked = 0;
    await page.clock.install();
    page.on('request', (request) => {
      if (STATUS.test(request.url())) asked += 1;
    });
    await page.route(STATUS, (route) => {
      held.push(route);
    });
    const question = () => page.waitForRequest(STATUS);
    const [first] = await Promise.all([question(), page.goto(demo.page)]);
    await page.clock.runFor(9_000);
    assert.equal(asked, 1, 'the first is not answered yet');
    const answer = async (request) => {
      await held.shift().continue();
      await (await request.response()).finished();
      await page.waitForFunction(() => document.getElementById('version').textContent !== '');
    };
    await answer(first);
    const [second] = await Promise.all([question(), page.clock.runFor(2_000)]);
    const show = (hidden) =>
      page.evaluate((hidden) => {
        Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
        document.dispatchEvent(new Event('visibilitychange'));
      }, hidden);
    await show(true);
    await answer(second);
    await page.clock.runFor(60_000);
    assert.equal(asked, 2, 'hidden');
    await Promise.all([question(), show(false)]);
    assert.equal(asked, 3, 'shown again');
    await page.close();
  });
});

describe('the verdict', () => {
  before(() => demo.played());

  test('it is drawn as the collector tells it', async () => {
    const check = (name, state, value) => ({ name, title: `${name}!`, state, value, objective: `${name}?` });
    const checks = [check('a', 'good', 'fine'), check('b', 'bad', 'broken'), check('c', 'unknown', 'none')];
    for (const state of ['bad', 'good', 'unknown']) {
      const verdict = { state, headline: `All is ${state}`, checks, notes: ['Streams start somewhere.'] };
      const page = await open(undefined, {}, (status) => Object.assign(status, { verdict }));
      assert.equal(await page.getByRole('heading', { level: 1 }).textContent(), verdict.headline);
      assert.equal(await page.title(), `${verdict.headline} · duplex-collector`);
      assert.equal(await page.locator('#verdict').getAttribute('data-state'), state);
      const drawn = await page
        .locator('.checks li')
        .evaluateAll((nodes) => nodes.map((node) => [node.dataset.check, node.dataset.state, node.textContent]));
      assert.deepEqual(drawn, [
        ['a', 'good', 'fine: a!finea?'],
        ['b', 'bad', 'wrong: b!brokenb?'],
        ['c', 'unknown', 'not known: c!nonec?'],
      ]);
      assert.equal(await page.locator('#notes').innerText(), 'Streams start somewhere.');
      await page.close();
    }
  });

  test('the limit of what is checked is drawn into its plots', async () => {
    const page = await open(undefined, {}, ({ verdict }) => {
      for (const { plotted } of verdict.checks) if (plotted) plotted.limit = 4711;
    });
    const lines = () =>
      page.locator('[data-measure]').evaluateAll((cards) => cards.map((card) => card.querySelectorAll('line.objective').length));
    assert.deepEqual(await lines(), [2, 2, 2]);
    assert.deepEqual(await page.locator('figcaption .objective').allTextContents(), [
      'objective 4,711 ms',
      'objective 4,711 ms',
      'objective 4,711',
    ]);
    await page.locator('input[value=stream]').check();
    await page.locator('[data-measure=duplex_stream_rtf]').waitFor();
    assert.deepEqual(await lines(), [0, 0, 0]);
    await page.close();
  });
});

describe('the plots', () => {
  before(() => demo.played());

  test('what is pointed at is said below, as is the last before', async () => {
    const page = await open(undefined, {}, ({ view }) => {
      const start = 1_790_000_000_000;
      const slot = (at) => ({ start_ms: start + at * 5_000, sessions: at, events: 10 * at, figures: {} });
      Object.assign(view, { slot_ms: 5_000, end_ms: start + 60 * 5_000, slots: [1, 2, 20].map(slot) });
    });
    const figure = page.locator('#traffic-plots figure').first();
    const readout = figure.locator('.readout');
    const marks = figure.locator('.bin');
    const words = (mark) => mark.getAttribute('data-words');
    assert.match(await words(marks.first()), /^\d\d:\d\d:\d\d: [\d,]+ sessions? in 5 s, [\d.,]+ per second$/);
    assert.equal(await readout.textContent(), await words(marks.last()));
    await marks.first().hover();
    assert.equal(await readout.textContent(), await words(marks.first()));
    await page.getByRole('heading', { level: 1 }).hover();
    assert.equal(await readout.textContent(), await words(marks.last()));
    await page.close();
  });

  test('rates are the sessions and events of the slots', async () => {
    const view = { start: 1_790_000_000_000, slot: 60_000 };
    const page = await open(undefined, {}, (status) => {
      status.view.slot_ms = view.slot;
      status.view.end_ms = view.start + 60 * view.slot;
      status.view.slots = [{ start_ms: view.start, sessions: 30, events: 6000, figures: {} }];
    });
    const said = await page.locator('#traffic-plots .readout').allTextContents();
    assert.deepEqual(
      said.map((text) => text.replace(/^\S+ /, '')),
      ['30 sessions in 60 s, 0.5 per second', '6,000 events in 60 s, 100 per second'],
    );
    await page.close();
  });

  test('a single slot is a dot and a narrow bar', async () => {
    const page = await open(undefined, {}, (status) => {
      status.view.slots = status.view.slots.slice(-1);
    });
    const card = page.locator('[data-measure]').first();
    assert.deepEqual([await card.locator('.dot').count(), await card.locator('.line').count()], [3, 0]);
    const width = await page.locator('#traffic-plots .bin').first().evaluate((bar) => bar.getBBox().width);
    assert.ok(width > 1 && width < 60, `${width}`);
    await page.close();
  });
});

describe('where there is no sample', () => {
  before(() => demo.played());
  const wrong = /NaN|undefined|null|Infinity|\[object/;

  test('before the first run it says what to do', async () => {
    const page = await open(undefined, {}, (status) => {
      Object.assign(status.verdict, { state: 'unknown', headline: 'No traffic yet', notes: [] });
      Object.assign(status, { runs: [], run: null, view: null, last_sessions: [], sessions_open: null, lag: null });
    });
    await page.getByRole('heading', { name: 'No session has finished yet' }).waitFor();
    assert.deepEqual(await values(page), {
      tiles: { sessions: null, responses: null, sessions_open: null, lag: null, dead_letters: 0 },
      ends: {},
      figures: {},
    });
    assert.doesNotMatch(await page.locator('body').innerText(), wrong);
    assert.deepEqual(await violations(page), []);
    await page.close();
  });

  test('a measure without one says so', async () => {
    const page = await open(undefined, {}, (status) => {
      status.run.parts.forEach((part) => {
        delete part.figures.duplex_response_ttfp_ms;
      });
      status.view.slots.forEach((slot) => {
        delete slot.figures.duplex_response_ttfp_ms;
      });
      delete status.view.shapes.duplex_response_ttfp_ms;
      Object.assign(status.last_sessions[0], {
        model: null,
        started_ms: null,
        ended_ms: null,
        duration_ms: null,
        stream_ttft_ms: null,
        stream_ttfp_ms: null,
        stream_rtf: null,
      });
      const none = {
        created_ms: null,
        first_text_ms: null,
        first_audio_ms: null,
        last_audio_ms: null,
        ended_ms: null,
        ttft_source: null,
      };
      status.last_sessions[0].responses.forEach((response) => Object.assign(response, none));
    });
    await page.locator('#sessions .open').first().click();
    assert.match(await page.locator('[data-measure=duplex_response_ttfp_ms]').innerText(), /no sample/);
    assert.doesNotMatch(await page.locator('body').innerText(), wrong);
    assert.deepEqual(page.faults, []);
    await page.close();
  });

  test('figures that are approximate are marked', async () => {
    const page = await open(undefined, {}, (status) => {
      status.run.parts.forEach((part) => {
        part.figures.duplex_response_rtf.approximate = true;
      });
    });
    const card = page.locator('[data-measure=duplex_response_rtf]');
    assert.deepEqual(
      await card.locator('dd').evaluateAll((nodes) => nodes.map((node) => node.textContent.startsWith('≈'))),
      [false, false, true, true, true, false],
    );
    assert.match(await card.innerText(), /approximate/);
    assert.equal(await page.locator('[data-measure=duplex_response_ttft_ms] dd', { hasText: '≈' }).count(), 0);
    await page.close();
  });
});
