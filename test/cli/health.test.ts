import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { becomesWell } from "../../packages/millrace/cli/local/health.ts";

/** A server with configured responses, counting from 0; a request may remain unanswered. */
async function server(answer: (question: number, response: ServerResponse) => void) {
  let [asked, hungUp] = [0, 0];
  const listening = createServer((request, response) => {
    request.on("close", () => response.writableEnded || hungUp++);
    answer(asked++, response);
  });
  await new Promise<void>((ready) => listening.listen(0, "127.0.0.1", ready));
  onTestFinished(() => {
    listening.closeAllConnections();
    listening.close();
  });
  return { url: `http://127.0.0.1:${(listening.address() as AddressInfo).port}`, asked: () => asked, hungUp: () => hungUp };
}

const well = (response: ServerResponse) => response.end("ok");

it("an engine with a slow response counts as healthy, and is polled only a few times", async () => {
  const { url, asked } = await server((_, response) => void sleep(2000).then(() => well(response)));
  expect(await becomesWell(url, AbortSignal.timeout(30_000), { besideMs: 100 })).toBe(true);
  // Polls at 0, 0.1, 0.3, 0.7 and 1.5 s.
  expect(asked()).toBeLessThanOrEqual(5);
});

it("an engine that responds after 2.1 s counts as healthy", async () => {
  const { url, hungUp } = await server((_, response) => {
    void sleep(2100).then(() => {
      if (hungUp() === 0) well(response);
    });
  });
  expect(await becomesWell(url, AbortSignal.timeout(10_000))).toBe(true);
});

it("an unanswered request does not prevent the next health check", async () => {
  const { url } = await server((question, response) => {
    if (question > 0) well(response);
  });
  expect(await becomesWell(url, AbortSignal.timeout(30_000), { besideMs: 10 })).toBe(true);
});

it("a port without a listener, and a server that returns 503, are polled until the timeout", async () => {
  const later = await server((question, response) => {
    response.statusCode = question < 3 ? 503 : 200;
    well(response);
  });
  expect(await becomesWell(later.url, AbortSignal.timeout(30_000))).toBe(true);
  expect(await becomesWell("http://127.0.0.1:9", AbortSignal.timeout(300))).toBe(false);
  expect(await becomesWell(later.url, AbortSignal.abort())).toBe(false);
});
