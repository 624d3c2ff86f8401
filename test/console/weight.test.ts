import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { script, style } from "../../packages/millrace/src/http/console/built.js";

/** The maximum size that a browser loads first, in gzip. */
const MOST_BYTES = 120_000;

/** The bytes of script and style in gzip. */
function firstLoad(): number {
  const bytes = [script, style].map(({ text = "" }) => gzipSync(text).length);
  console.log(`The console: ${bytes.join(" + ")} bytes in gzip.`);
  return bytes.reduce((sum, one) => sum + one);
}

it("the whole console is loaded within 120 KB of gzip, and requests nothing from any other origin", () => {
  expect(firstLoad()).toBeLessThan(MOST_BYTES);
  const urls = [script, style].flatMap(({ text = "" }) => text.match(/https?:\/\/[\w.]+/g) ?? []);
  expect(urls.filter((url) => !url.startsWith("http://www.w3.org"))).toEqual([]);
});

it("docs/console.md states the measured size of the first load, to within 1 KB (1,000 bytes)", () => {
  const [, said] = readFileSync("docs/console.md", "utf8").match(/script and style are (\d+) KB in gzip/) ?? [];
  expect(Math.abs(Number(said) - firstLoad() / 1000)).toBeLessThan(1);
});

it("no source of the console creates HTML from text, or stores a token for other tabs", () => {
  expect(script.text).not.toMatch(/document\.write|insertAdjacentHTML|document\.cookie/);
  expect(readFileSync("packages/millrace/console/data/session.ts", "utf8")).not.toMatch(/localStorage|indexedDB/);
});
