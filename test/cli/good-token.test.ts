import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { requireGoodToken } from "../../packages/millrace/cli/local/token.ts";

const file = join(process.cwd(), ".millrace/token");
const soon = { patienceMs: 1500, askEveryMs: 1 };

/** An engine that responds with one status after another, and repeats the last; null closes the connection. */
async function engine(...statuses: (number | null)[]) {
  let asked = 0;
  const server = createServer((_, response) => {
    const status = statuses[Math.min(asked++, statuses.length - 1)];
    if (status === null || status === undefined) return response.destroy();
    response.writeHead(status, { "content-type": "application/json", "millrace-api": "v1" });
    return response.end(status === 200 ? '{"items":[]}' : '{"detail":"So it is."}');
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const check = (options = soon) =>
    requireGoodToken(
      { url, token: "t", logFile: join(process.cwd(), ".millrace/worker.log") },
      file,
      new AbortController().signal,
      options,
    );
  return { check, asked: () => asked };
}

it.each([401, 403])("a token that the engine refuses with %i is reported at once, with the token's file", async (status) => {
  const { check, asked } = await engine(status);
  await expect(check()).rejects.toThrow(
    `The token in .millrace/token does not work (GET /v1/instances?correlation=none&limit=200 answered ${status}: So it is.) Delete that file`,
  );
  expect(asked()).toBe(1);
});

it.each<[number | null, string]>([
  [503, "answered 503: So it is. More is in .millrace/worker.log."],
  [null, "gave no answer to GET"],
])("an unavailable engine (%s) is polled again, and the error does not contain the token", async (status, said) => {
  const { check, asked } = await engine(status);
  const refusal = await check().catch((error: Error) => error.message);
  expect(refusal).toContain("The engine started, but does not answer: ");
  expect(refusal).toContain(said);
  expect(refusal).not.toMatch(/token|Delete/i);
  expect(asked()).toBeGreaterThan(1);
});

it("a token that the engine accepts only after a delay is valid", async () => {
  const { check } = await engine(null, 503, 200);
  await check({ patienceMs: 30_000, askEveryMs: 1 });
});
