// Opens pages in a headless browser and tells what a reader would find, as JSON.
//
//   node visit.mjs BROWSER MODULES
//
// Each line of standard input is a list of visits, and gets one line of output: a list of what was
// found. A visit is {url, width, height, scheme, picture?, scale?}; `picture` names a PNG to write.
// For each, in order: title, facts (dt: dd), rows (cells of tables), text, markup (elements by
// name), violations (axe), requests, errors (console, page, Content-Security-Policy), overflow,
// stops (of the Tab key).
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import readline from 'node:readline';

const [browserPath, modules] = process.argv.slice(2);
const require = createRequire(path.resolve(modules, 'package.json'));
const { default: puppeteer } = await import(require.resolve('puppeteer-core'));
const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const browser = await puppeteer.launch({
  executablePath: browserPath,
  headless: 'shell',
  args: [
    '--no-sandbox', // containers give it no namespaces; the pages are our own
    '--disable-gpu',
    '--disable-dev-shm-usage',
    '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
  ],
});

function read() {
  const text = (element) => element.innerText.trim();
  const markup = {};
  for (const each of document.body.querySelectorAll('*')) {
    markup[each.localName] = (markup[each.localName] ?? 0) + 1;
  }
  return {
    title: document.title,
    facts: Object.fromEntries(
      [...document.querySelectorAll('dt')].map((each) => [text(each), text(each.nextElementSibling)]),
    ),
    rows: [...document.querySelectorAll('tbody tr')].map((row) => [...row.cells].map(text)),
    text: text(document.body),
    markup,
    overflow: document.documentElement.scrollWidth > window.innerWidth,
  };
}

function focused() {
  const each = document.activeElement;
  const style = getComputedStyle(each);
  return {
    name:
      each.innerText?.trim() ||
      each.getAttribute('aria-label') ||
      each.labels?.[0]?.innerText.trim() ||
      each.name ||
      each.localName,
    kind: each.localName,
    is_marked: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0,
  };
}

async function open(visit) {
  const page = await browser.newPage();
  const requests = [];
  const errors = [];
  page.on('request', (each) => requests.push(each.url()));
  page.on('pageerror', (each) => errors.push(each.message));
  page.on('console', (each) => each.type() === 'error' && errors.push(each.text()));
  await page.setViewport({ width: visit.width, height: visit.height, deviceScaleFactor: visit.scale ?? 1 });
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: visit.scheme }]);
  await page.goto(visit.url, { waitUntil: 'load' });
  const seen = await page.evaluate(read);
  if (visit.picture) await page.screenshot({ path: visit.picture });
  const stops = [];
  for (let count = 0; count < 12; count++) {
    await page.keyboard.press('Tab');
    stops.push(await page.evaluate(focused));
  }
  await page.evaluate(axe);
  const { violations, passes } = await page.evaluate(() => globalThis.axe.run());
  await page.close();
  return {
    ...seen,
    stops,
    requests,
    errors,
    passed: passes.length,
    violations: violations.map((each) => ({
      id: each.id,
      help: each.help,
      nodes: each.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 200)} ${node.failureSummary}`),
    })),
  };
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  const found = [];
  for (const visit of JSON.parse(line)) found.push(await open(visit));
  process.stdout.write(`${JSON.stringify(found)}\n`);
}
await browser.close();
