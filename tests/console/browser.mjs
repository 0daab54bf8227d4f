// Opens pages of a console in Chromium, and judges each: `browser.mjs TASK`, where TASK is a JSON file.
//
// look:    each page in windows of a width and a colour scheme: nothing is wider than the window, each value has room, WCAG AA holds (axe-core), nothing moves after it was
//          drawn, no script fails and nothing is refused by the Content-Security-Policy. Images are written if the task has a folder.
// paints:  the times from the beginning of the navigation to the first paint of each page, in milliseconds: the median and the longest. A reader opens
//          each page from another page of the console, so that the style and the scripts are in the cache. Nothing else is asked of the browser meanwhile.
// steps:   clicks and inputs, one after the other, as a reader does them.
//
// The result is JSON on standard output: the problems that were found, and the texts that were read.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const task = JSON.parse(readFileSync(process.argv[2], "utf8"));
const require = createRequire(join(task.packages, "package.json"));
const { default: puppeteer } = await import(require.resolve("puppeteer-core"));
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const problems = [];
const texts = {};

const browser = await puppeteer.launch({
  executablePath: task.chromium,
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--force-color-profile=srgb", "--hide-scrollbars"],
  defaultViewport: { width: 1024, height: 800 },
});

async function openTab(place) {
  const page = await browser.newPage();
  page.on("pageerror", (error) => problems.push(`${place.now}: a script fails: ${error.message}`));
  page.on("console", (message) => {
    // The page itself may be an error that is shown: its status is judged below.
    if (message.type() === "error" && message.location().url !== page.url()) problems.push(`${place.now}: ${message.text()}`);
  });
  // Shifts that follow an input of the reader do not count.
  await page.evaluateOnNewDocument(() => {
    window.shifted = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value;
    }).observe({ type: "layout-shift", buffered: true });
  });
  return page;
}

async function settled(page) {
  const isSettled = () =>
    document.readyState === "complete" &&
    (window.htmx || !document.querySelector("script[data-htmx]")) &&
    !document.querySelector(".htmx-request, .later .loading");
  await page.waitForFunction(isSettled, { timeout: 30000 });
  await new Promise((done) => setTimeout(done, task.pause ?? 150));
}

async function judge(page, where) {
  const wide = await page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    const beyond = [...document.querySelectorAll("body *")].filter((element) => {
      const box = element.getBoundingClientRect();
      return box.right > width + 1 && !element.closest(".scrolls, pre");
    });
    return beyond.slice(0, 3).map((element) => element.outerHTML.slice(0, 120));
  });
  if (wide.length > 0) problems.push(`${where}: wider than the window: ${wide.join(" | ")}`);
  // A short value in a column that is too narrow has one character a line; one in a column without a width is cut off.
  const squeezed = await page.evaluate(() => {
    const isSqueezed = (element) => {
      const text = element.innerText.trim();
      const box = element.getBoundingClientRect();
      const letter = parseFloat(getComputedStyle(element).fontSize);
      return text.length > 1 && box.height > 0 && (box.width < letter || (box.width < 2 * letter && box.height > 3 * letter));
    };
    const found = [...document.querySelectorAll("dd, td")].filter(isSqueezed);
    return found.slice(0, 3).map((element) => element.outerHTML.slice(0, 120));
  });
  if (squeezed.length > 0) problems.push(`${where}: no room for a value: ${squeezed.join(" | ")}`);
  const touching = await page.evaluate(() => {
    const space = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const isTouching = (table) => {
      const [above, below] = [table.previousElementSibling, table].map((element) => element.getBoundingClientRect());
      return below.height > 0 && below.top - above.bottom < space;
    };
    return [...document.querySelectorAll(".scrolls + .scrolls")].filter(isTouching).map((table) => table.innerText.slice(0, 120));
  });
  if (touching.length > 0) problems.push(`${where}: a table touches the one above it: ${touching.join(" | ")}`);
  await page.evaluate(axe);
  const judged = await page.evaluate(() =>
    window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] }),
  );
  for (const violation of judged.violations) {
    const nodes = violation.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} (${node.failureSummary})`);
    problems.push(`${where}: ${violation.id}: ${nodes.join(" | ")}`);
  }
  const shifted = await page.evaluate(() => window.shifted);
  if (shifted > 0.1) problems.push(`${where}: the page moves after it was drawn (${shifted.toFixed(3)})`);
}

async function look({ pages, windows, images }) {
  const place = { now: "" };
  const page = await openTab(place);
  for (const { width, scheme } of windows) {
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await page.setViewport({ width, height: width < 600 ? 740 : 900 });
    for (const { name, path } of pages) {
      place.now = `${name} at ${width} px, ${scheme}`;
      const response = await page.goto(new URL(path, task.url), { waitUntil: "load" });
      if (response.status() >= 500) problems.push(`${place.now}: status ${response.status()}`);
      await settled(page);
      await judge(page, place.now);
      if (images) await page.screenshot({ path: join(images, `${name}-${width}-${scheme}.png`) });
    }
  }
  await page.close();
}

async function paints({ pages, from, widths, rounds }) {
  const page = await openTab({ now: "" });
  const paints = {};
  for (const width of Array(rounds).fill(widths).flat()) {
    await page.setViewport({ width, height: width < 600 ? 740 : 900 });
    for (const { name, path } of pages) {
      await page.goto(new URL(from, task.url), { waitUntil: "load" });
      await settled(page);
      await page.goto(new URL(path, task.url), { waitUntil: "load" });
      await settled(page);
      const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0);
      (paints[name] ??= []).push(Math.round(paint));
    }
  }
  for (const [name, times] of Object.entries(paints)) {
    times.sort((one, other) => one - other);
    texts[name] = `${times[Math.floor(times.length / 2)]}, at most ${times.at(-1)}`;
  }
  await page.close();
}

// Presses the last of these keys while the others are held.
async function press(page, keys) {
  const held = keys.slice(0, -1);
  for (const key of held) await page.keyboard.down(key);
  await page.keyboard.press(keys.at(-1));
  for (const key of held) await page.keyboard.up(key);
}

// Presses Tab until an element has the focus. A reader sees each stop on the way.
async function tabTo(page, place, selector) {
  for (let presses = 0; presses < 300; presses++) {
    await page.keyboard.press("Tab");
    const { isThere, isSeen, html } = await page.evaluate((selector) => {
      const element = document.activeElement;
      const box = element.getBoundingClientRect();
      const isInView = box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight;
      const hasRing = getComputedStyle(element).outlineStyle !== "none";
      // Between the last stop and the first, the body has the focus.
      const isSeen = element === document.body || (isInView && hasRing);
      return { isThere: element.matches(selector), isSeen, html: element.outerHTML.slice(0, 120) };
    }, selector);
    if (!isSeen) problems.push(`${place.now}: the focus is not seen: ${html}`);
    if (isThere) return;
  }
  throw new Error("the keyboard does not reach it");
}

// A step is { open | click | type | tab | keys | choose | range | press | focus | scroll | wait | differs | pause | read | field | active | count | requests }. Selectors
// may be those of puppeteer: `::-p-text(…)`, `::-p-aria(…)`.
async function steps({ list, width }) {
  const place = { now: "" };
  const page = await openTab(place);
  await page.setViewport({ width: width ?? 1024, height: 900 });
  for (const step of list) {
    place.now = JSON.stringify(step);
    try {
      if (step.open) {
        await page.goto(new URL(step.open, task.url), { waitUntil: "load" });
        await settled(page);
      }
      if (step.click) await page.locator(step.click).setTimeout(step.within ?? 15000).click();
      if (step.type) await page.locator(step.type).fill(step.text);
      if (step.tab) await tabTo(page, place, step.tab);
      if (step.keys) await page.keyboard.type(step.keys);
      if (step.choose) await page.select(step.choose, step.value);
      if (step.range) {
        await settled(page);
        await page.$eval(
          step.range,
          (slider, value) => {
            slider.value = value;
            slider.dispatchEvent(new Event("input", { bubbles: true }));
            slider.dispatchEvent(new Event("change", { bubbles: true }));
          },
          step.value,
        );
      }
      if (step.press) await press(page, step.press.split("+"));
      // At once: an element that was found before can have been replaced.
      if (step.focus) await page.evaluate((selector) => document.querySelector(selector).focus(), step.focus);
      if (step.scroll) await page.$eval(step.scroll, (element) => element.scrollIntoView({ block: "end" }));
      if (step.count) texts[step.as] = String((await page.$$(step.count)).length);
      if (step.wait) await page.waitForSelector(step.wait, { timeout: step.within ?? 20000 });
      if (step.differs) {
        const differs = (selector, text) => document.querySelector(selector)?.innerText !== text;
        await page.waitForFunction(differs, { timeout: 30000 }, step.differs, texts[step.from]);
      }
      if (step.pause) await new Promise((done) => setTimeout(done, step.pause));
      if (step.field) texts[step.as] = await page.$eval(step.field, (field) => field.value);
      if (step.active) texts[step.active] = await page.evaluate(() => document.activeElement.outerHTML.slice(0, 400));
      if (step.requests) {
        const sent = (part) => performance.getEntriesByType("resource").filter(({ name }) => name.includes(part)).length;
        texts[step.as] = String(await page.evaluate(sent, step.requests));
      }
      if (step.read) texts[step.as] = await page.$eval(step.read, (element) => element.innerText);
      if (step.address) texts[step.address] = page.url();
      if (step.judge) await judge(page, place.now);
      if (step.image) await page.screenshot({ path: step.image });
    } catch (error) {
      const shown = await page.evaluate(() => document.body?.innerText.slice(0, 4000)).catch(() => "");
      problems.push(`${place.now}: ${error.message}\n${page.url()}\n${shown}`);
      break;
    }
  }
  await page.close();
}

try {
  if (task.look) await look(task.look);
  if (task.paints) await paints(task.paints);
  if (task.steps) await steps(task.steps);
} finally {
  await browser.close();
}
console.log(JSON.stringify({ problems, texts }));
