// The demo and a browser for the tests of the status page.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import readline from 'node:readline';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const target = path.resolve(root, process.env.CARGO_TARGET_DIR ?? 'target');
const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** The real program, which makes its own traffic for 20 s and serves until it is stopped. */
export class Demo {
  static async start() {
    const child = spawn(path.join(target, 'release/duplex-collector'), ['demo', '--keep-running', '--live=0', '--no-open'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const demo = new Demo();
    demo.child = child;
    demo.ended = once(child, 'exit');
    demo.lines = readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    demo.page = (await demo.line(/status +(http:\S+)/))[1];
    return demo;
  }

  /** The first line to come that matches. */
  async line(pattern) {
    for (;;) {
      const { value, done } = await this.lines.next();
      if (done) throw new Error(`the demo ended without a line of ${pattern}`);
      const match = value.match(pattern);
      if (match) return match;
    }
  }

  /** Once all its sessions have finished and their figures were printed. */
  async played() {
    this.done ??= this.line(/serving until/);
    await this.done;
  }

  async get(route) {
    const response = await fetch(new URL(route, this.page));
    if (!response.ok) throw new Error(`${route} answers ${response.status}`);
    return response.json();
  }

  /** Its exit code. */
  async stop() {
    if (this.child.exitCode === null) this.child.kill('SIGTERM');
    const [code] = await this.ended;
    return code;
  }
}

export const launch = () =>
  chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });

/** A page with a list of what goes wrong in it: console messages, exceptions, requests that fail or go elsewhere. */
export async function newPage(browser, address, options = {}) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options });
  const { origin } = new URL(address);
  const faults = [];
  page.setDefaultTimeout(60_000);
  page.on('console', (message) => faults.push(`console ${message.type()}: ${message.text()}`));
  page.on('pageerror', (error) => faults.push(`exception: ${error}`));
  page.on('requestfailed', (request) => {
    // A question is given up when another is asked.
    if (request.failure().errorText !== 'net::ERR_ABORTED') faults.push(`failed: ${request.url()}`);
  });
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (url.protocol !== 'data:' && url.origin !== origin) faults.push(`request to elsewhere: ${url}`);
  });
  return Object.assign(page, { faults });
}

/** Answers the page's questions with what `change` makes of the true answer. */
export async function changeStatus(page, change) {
  await page.unroute(STATUS);
  await page.route(STATUS, async (route) => {
    const response = await route.fetch();
    const status = await response.json();
    change(status);
    await route.fulfill({ response, json: status });
  });
}

export const STATUS = /\/status(\?|$)/;

/** What axe-core finds, a line each. */
export async function violations(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return violations.flatMap(({ id, nodes }) =>
    nodes.map((node) => `${id}: ${node.html.slice(0, 120)}: ${node.failureSummary}`),
  );
}

/** The value of everything that has one, by a name of its own. */
export const values = (page) =>
  page.evaluate(() => {
    const number = (node) => (node.hasAttribute('data-value') ? Number(node.dataset.value) : null);
    const all = (selector, name) =>
      Object.fromEntries(Array.from(document.querySelectorAll(selector), (node) => [name(node), number(node)]));
    return {
      tiles: all('[data-tile]', (node) => node.dataset.tile),
      ends: all('[data-reason]', (node) => node.dataset.reason),
      figures: all(
        '[data-figure]',
        (node) => `${node.closest('[data-measure]').dataset.measure} ${node.dataset.figure}`,
      ),
    };
  });

/** Text of the plots whose contrast with its card is under 4.5, which axe-core does not look at. */
export const lowContrast = (page) =>
  page.evaluate(() => {
    const canvas = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d', {
      willReadFrequently: true,
    });
    const luminance = (color) => {
      canvas.fillStyle = color;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b] = Array.from(canvas.getImageData(0, 0, 1, 1).data, (byte) => byte / 255).map((c) =>
        c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4,
      );
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    return Array.from(document.querySelectorAll('svg text')).flatMap((text) => {
      const ground = getComputedStyle(text.closest('td, .card')).backgroundColor;
      const [a, b] = [
        getComputedStyle(text).fill,
        ground === 'rgba(0, 0, 0, 0)' ? getComputedStyle(text.closest('.card')).backgroundColor : ground,
      ]
        .map(luminance)
        .sort((a, b) => b - a);
      const contrast = (a + 0.05) / (b + 0.05);
      return contrast < 4.5 ? [`${text.textContent}: ${contrast.toFixed(2)}`] : [];
    });
  });
