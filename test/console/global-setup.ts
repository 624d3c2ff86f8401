import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import type { TestProject } from "vitest/node";
import { askerOf } from "../../src/cli/api-client.ts";
import { type Engine, startEngine } from "../../src/cli/local/engine-process.ts";
import { freePort } from "../../src/cli/local/ports.ts";
import { serveChrome } from "../outside/tools/chrome.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Answers, as JSON, the stage of the console's tests, which the first who asks has started. */
    consoleStageUrl: string;
  }
}

/** What people of the tests ask of the stage besides: calls of an upstream that have this in them are refused, or are not any more. */
export interface Break {
  upstream: "pages" | "search";
  match: string;
  isBroken: boolean;
}

/** The engine and the browser that all files of the console's tests share. */
export interface StageParts {
  url: string;
  /** The engine's own token. */
  token: string;
  /** Where its database is. */
  state: string;
  /** Where a browser is connected to. */
  browser: string;
}

/** Starts nothing until a test asks: most runs of this project have none of the console's. */
export default async function setup(project: TestProject) {
  let started: Promise<StageParts> | undefined;
  const stops: (() => unknown)[] = [];
  const broken = new Map<string, Omit<Break, "isBroken">>();
  const server = createServer(async (request, response) => {
    started ??= start(stops);
    // Kept here for all files: the engine takes all of its faults at once.
    if (request.method === "POST") {
      const { upstream, match, isBroken } = (await json(request)) as Break;
      if (isBroken) broken.set(`${upstream} ${match}`, { upstream, match });
      else broken.delete(`${upstream} ${match}`);
      await setFaults(await started, [...broken.values()]);
      return void response.end();
    }
    const [status, body] = await started.then(
      (parts) => [200, JSON.stringify(parts)] as const,
      (error: unknown) => [500, String(error)] as const,
    );
    response.writeHead(status).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  project.provide("consoleStageUrl", `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return async () => {
    server.close();
    for (const stop of stops) await stop();
  };
}

async function start(stops: (() => unknown)[]): Promise<StageParts> {
  const folder = mkdtempSync(join(tmpdir(), "millrace-console-"));
  const secrets = join(folder, "secrets");
  writeFileSync(secrets, "MILLRACE_KEY=test\n");
  const browser = await serveChrome();
  stops.push(() => browser.close());
  const engine = await startedEngine(folder, secrets);
  stops.push(
    () => engine.stop(),
    () => rmSync(folder, { recursive: true, force: true }),
  );
  return { url: engine.url, token: engine.token, state: join(folder, "state"), browser: browser.wsEndpoint() };
}

function setFaults({ url, token }: StageParts, broken: readonly Omit<Break, "isBroken">[]): Promise<void> {
  return askerOf(url, token)(
    "PUT",
    "/embedded/faults",
    broken.map((one) => ({ ...one, status: 403, remaining: null })),
  );
}

async function startedEngine(folder: string, secrets: string): Promise<Engine> {
  return startEngine({ folder, port: await freePort(), secrets, vars: { EMBEDDED_CONTROL: "true", MILLRACE_DEVELOPMENT: "true" } });
}
