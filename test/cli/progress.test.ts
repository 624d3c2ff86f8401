import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished, vi } from "vitest";
import { progressLine } from "../../packages/millrace/cli/operate/step-words.ts";
import { millrace } from "./millrace.ts";

const STEP = { step: "copy [a]", attempt: 1, share: 0.4, done: 40, of: 100, text: "pages" };

it("the progress of a step is one line: its name, the percentage, a bar as wide as the terminal permits, and its numbers", () => {
  expect(progressLine(STEP)).toBe("copy [a]  40 %  ████████░░░░░░░░░░░░  40 of 100 pages");
  expect(progressLine(STEP, 40)).toBe("copy [a]  40 %  ██░░░░  40 of 100 pages");
  expect(progressLine(STEP, 38)).toBe("copy [a]  40 %  40 of 100 pages");
  expect(progressLine({ ...STEP, share: null, of: null })).toBe("copy [a]  40 pages");
  expect(progressLine({ ...STEP, share: 0.999, done: null, of: null, text: null })).toBe("copy [a]  99 %  ███████████████████░");
  expect(progressLine({ ...STEP, share: null, done: null, of: null, text: "\u001b[2Jlast\npage" })).toBe("copy [a]  last page");
});

/** An engine with one instance. A step of the instance reports its progress twice and then completes. */
async function reporting(id: string, subject = "a"): Promise<string> {
  const instance = { id, workflow: "copy", subject, status: "complete", undo: null, held: null, waiting_for: [], result: null };
  const step = (type: string, at: number) => ["step", { type, step: "copy", count: 1, attempt: 1, at: new Date(at).toISOString() }];
  const events = [
    ...[step("attempt_started", 0), ["progress", { ...STEP, step: "copy", share: 0.2, done: 20 }], ["progress", { ...STEP, step: "copy" }]],
    ...[step("attempt_completed", 2000), ["end", instance]],
  ];
  const server = createServer(async (request, response) => {
    response.setHeader("millrace-api", "0.1.0");
    if (!request.url?.endsWith("/stream")) return void response.setHeader("content-type", "application/json").end(JSON.stringify(instance));
    response.setHeader("content-type", "text/event-stream");
    for (const [nth, [event, data]] of events.entries()) {
      response.write(`id: ${nth}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
      await new Promise((sent) => setTimeout(sent, 20));
    }
    response.end();
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

it("on a terminal a bar without line wrap replaces the last bar and is erased before the next line; otherwise each tenth is a line", async () => {
  const id = "a".repeat(32);
  const asked = millrace({ url: await reporting(id), token: `mr_${"a".repeat(16)}_${"b".repeat(43)}` });
  const tail = async () => (await asked(["instances", "tail", id])).err;
  expect(await tail()).toBe(
    "copy  20 %  ████░░░░░░░░░░░░░░░░  20 of 100 pages\ncopy  40 %  ████████░░░░░░░░░░░░  40 of 100 pages\ncopy of a is complete.\n",
  );
  vi.stubEnv("TERM", "xterm");
  const { isTTY, columns } = process.stderr;
  onTestFinished(() => void Object.assign(process.stderr, { isTTY, columns }));
  Object.assign(process.stderr, { isTTY: true, columns: 0 });
  expect(await tail()).toBe(
    "\r\u001b[K\u001b[?7lcopy  20 %  ████░░░░░░░░░░░░░░░░  20 of 100 pages\u001b[?7h" +
      "\r\u001b[K\u001b[?7lcopy  40 %  ████████░░░░░░░░░░░░  40 of 100 pages\u001b[?7h" +
      "\r\u001b[Kcopy of a is complete.\n",
  );
  vi.stubEnv("TERM", "dumb");
  expect(await tail()).not.toContain("\u001b");
});

it("the default subject of an instance, the name of its workflow, is not printed", async () => {
  const id = "a".repeat(32);
  const asked = millrace({ url: await reporting(id, "copy"), token: `mr_${"a".repeat(16)}_${"b".repeat(43)}` });
  expect((await asked(["instances", "tail", id])).err).toMatch(/\ncopy is complete\.\n$/);
});
