import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { expect, it } from "vitest";

/**
 * The maximum memory for one body of 4 MB, of the 128 MB that all requests of an isolate share; twice as much if every item of a long list
 * is invalid.
 */
const ENOUGH_MB = 32;
const BYTES = 4 * 1024 * 1024;

const filled = (begin: string, unit: string, end: string) =>
  `${begin}${unit.repeat(Math.floor((BYTES - begin.length - end.length) / unit.length))}${end}`;
const listed = (begin: string, count: number, item: (index: number) => string, end: string) =>
  `${begin}${Array.from({ length: count }, (_, index) => item(index)).join(",")}${end}`;
const long = "k".repeat(BYTES - 5000);

/** Reads a body in a separate isolate with this memory limit; returns the result. */
async function readWithin(megabytes: number, body: string): Promise<string> {
  const limits = { maxOldGenerationSizeMb: megabytes, maxYoungGenerationSizeMb: 8 };
  const isolate = new Worker(new URL("./body-isolate.ts", import.meta.url).pathname, {
    workerData: new TextEncoder().encode(body),
    resourceLimits: limits,
    execArgv: ["--no-warnings"],
  });
  const ended = once(isolate, "exit");
  const [said] = await Promise.race([once(isolate, "message"), once(isolate, "error").then(([error]) => [String(error.code)])]);
  await ended;
  return said;
}

it.each<[string, string, string, number?]>([
  ["zeros", filled("[", "0,", "0]"), "invalid_payload"],
  ["empty objects", filled("[", "{},", "{}]"), "invalid_payload"],
  ["empty lists", filled("[", "[],", "[]]"), "invalid_payload"],
  ["empty texts", filled("[", '"",', '""]'), "invalid_payload"],
  ["nested lists without a closing bracket", filled("", "[", ""), "invalid_payload"],
  ["fields", listed("{", 300_000, (index) => `"${index}":0`, "}"), "invalid_payload"],
  ["one string of escape sequences", filled('{"type":"', "\\\\", '","payload":{}}'), "read"],
  ["one non-Latin-1 text", `{"type":"${"€".repeat(BYTES / 3 - 20)}","payload":{}}`, "read"],
  ["the maximum number of unknown fields", listed('{"type":"a",', 49_990, (index) => `"x${index}":{}`, ',"payload":{}}'), "50 issues"],
  [
    "the maximum number of small items",
    listed('{"type":"a","payload":{"list":[', 24_000, () => '{"b":0}', "]}}"),
    "50 issues",
    2 * ENOUGH_MB,
  ],
  [
    "a key of megabytes whose object has unknown fields",
    `{"type":"a","payload":{"named":{"${long}":{${Array.from({ length: 90 }, (_, i) => `"b${i}":0`)}}}}}`,
    "50 issues",
  ],
  ["one field name repeated", listed('{"type":"a","payload":{', 49_000, () => '"list":[]', "}}"), "invalid_payload"],
])("a body of 4 MB with %s is read or refused within a fraction of an isolate's memory", async (_, body, said, megabytes = ENOUGH_MB) => {
  expect(await readWithin(megabytes, body)).toBe(said);
});

it("an isolate with the same memory limit fails on such a body if it is parsed at once", async () => {
  const source = `JSON.parse(new TextDecoder().decode(require("node:worker_threads").workerData))`;
  const isolate = new Worker(source, {
    eval: true,
    workerData: new TextEncoder().encode(filled("[", "{},", "{}]")),
    resourceLimits: { maxOldGenerationSizeMb: ENOUGH_MB, maxYoungGenerationSizeMb: 8 },
  });
  const [error] = await once(isolate, "error");
  expect(error.code).toBe("ERR_WORKER_OUT_OF_MEMORY");
});
