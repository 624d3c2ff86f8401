import { appendFileSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { followLog, humanLine, openLog } from "../../packages/millrace/cli/local/worker-log.ts";
import { emptyFolder } from "./folder.ts";

it.each([
  ['{"log":"batch","queue":"brand-events","messages":3,"routed":2,"retried":1}', "brand-events: 3 messages, 2 routed, 1 retried"],
  ['{"log":"delivery","queue":"q","message_type":"a.b","subject":"s","outcome":"retried","error":"No."}', "q: a.b s retried: No."],
  [
    '▲ [WARNING] {"log":"delivery","queue":"q","message_type":"a.b","subject":"s","outcome":"retried","error":"No."}',
    "q: a.b s retried: No.",
  ],
  ['{"log":"delivery","queue":"q","message_type":"a","subject":"a","outcome":"retried","error":"No."}', "q: a retried: No."],
  ['{"log":"ended","workflow":"w","subject":"w","status":"complete"}', "w complete"],
  ['{"log":"delivery","queue":"q","outcome":"captured","error":"No."}', "q: a message without a type captured: No."],
  ['{"log":"keeper","applied":0,"resent":2,"checked":1,"pruned":0}', "keeper: 2 resent, 1 checked"],
  ['{"log":"keeper","part":"outbox","error":"Error: gone"}', "keeper: outbox failed: Error: gone"],
  [
    '{"log":"retention","removed":{"old letters":12,"text calls":0,"batches":3},"unfinished":["crm syncs"],"ms":2022}',
    "retention: removed 12 old letters, 3 batches",
  ],
  ['{"log":"retention","rule":"batches","error":"Error: gone"}', "retention: batches failed: Error: gone"],
  ['{"log":"anything","what":{"left":2},"which":["a","b"]}', 'anything: what {"left":2}, which ["a","b"]'],
  ['{"log":"api","code":"invariant","message":"Oh.","method":"GET","path":"/v1/x"}', "GET /v1/x: invariant: Oh."],
  ['{"log":"advice","workflow":"w","instance_id":"i","step":"a","said":"It was not awaited."}', 'w: "a": It was not awaited.'],
  ['{"log":"advice","workflow":"w","instance_id":"i","step":"","said":"fetch outside a step."}', "w: fetch outside a step."],
  ['{"log":"wake","instance_id":"i","error":"Error: gone"}', "wake: instance_id i, error Error: gone"],
  ["\u001b[31m✘ [ERROR] Could not resolve x\u001b[0m", "error: Could not resolve x"],
])("the log line %s is printed as a sentence", (line, words) => {
  expect(humanLine(line)).toBe(words);
});

it.each([
  '✘ [ERROR] Worker "workflows:a"\'s binding "USER_WORKFLOW" refers to service "core:user:millrace" with a named entrypoint "A", but it has no such named entrypoint.',
  "✘ [ERROR] The Workers runtime failed to start. There was likely a problem with the workerd binary or your configuration.",
  "",
  "[wrangler:info] GET /healthz 200 OK (3ms)",
  "env.DB (millrace)   D1 Database",
  "[wrangler:info] GET /x/[ERROR]forged-by-a-stranger 404 Not Found (3ms)",
  "[wrangler:info] GET /x/[ERROR]Uncaught 404 Not Found (3ms)",
  '[wrangler:info] GET /x/✘[ERROR]{"log":"ended"} 404 Not Found (3ms)',
  '{"log":"batch',
  '{"log":"retention","removed":{},"unfinished":["batches","text calls"],"ms":2022}',
])("the log line %s is not printed: only the log file contains it", (line) => {
  expect(humanLine(line)).toBeUndefined();
});

it("a reader of a log file prints complete lines that are added after its start, and no other lines", async () => {
  const file = join(emptyFolder(), "worker.log");
  writeFileSync(file, "before\n");
  const heard: string[] = [];
  onTestFinished(followLog(file, (line) => heard.push(line)));
  appendFileSync(file, "one\ntw");
  await vi.waitFor(() => expect(heard).toEqual(["one"]));
  appendFileSync(file, "o\n");
  await vi.waitFor(() => expect(heard).toEqual(["one", "two"]));
});

it("a reader of a log file prints all lines after a given position, also lines that were added before its start", async () => {
  const file = join(emptyFolder(), "worker.log");
  writeFileSync(file, "of another start\nas it came up\n");
  const heard: string[] = [];
  onTestFinished(followLog(file, (line) => heard.push(line), "of another start\n".length));
  appendFileSync(file, "later\n");
  await vi.waitFor(() => expect(heard).toEqual(["as it came up", "later"]));
});

it("an unreadable log line ends no process, and later lines are read", async () => {
  const file = join(emptyFolder(), "worker.log");
  writeFileSync(file, "");
  const heard: string[] = [];
  onTestFinished(followLog(file, (line) => heard.push(humanLine(line) ?? "")));
  appendFileSync(file, '{"log":"ended","workflow":{"toString":1},"subject":"s","status":"complete"}\n');
  appendFileSync(file, '{"log":"ended","workflow":"w","subject":"s","status":"complete"}\n');
  await vi.waitFor(() => expect(heard).toEqual(["w s complete"]));
});

it("a log file above its maximum size is rotated", () => {
  const file = join(emptyFolder(), "worker.log");
  writeFileSync(file, "old");
  truncateSync(file, 11 * 1024 * 1024);
  openLog(file);
  expect(readFileSync(file, "utf8")).toBe("");
  expect(readFileSync(`${file}.1`, "utf8")).toMatch(/^old/);
});
