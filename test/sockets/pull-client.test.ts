import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, it, onTestFinished } from "vitest";
import { ROOT } from "../../packages/millrace/cli/local/wrangler.ts";
import { inMemory } from "../in-memory.ts";
import { poll } from "./poll.ts";
import { startRuntime } from "./runtime.ts";

it("the client of docs/pull.md survives an unresponsive server, receives a Worker's messages once each, and returns those it cannot process", async () => {
  const folder = mkdtempSync(join(inMemory() ?? tmpdir(), "millrace-pull-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const runtime = await startRuntime(folder);
  onTestFinished(() => runtime.stop());
  const post = (path: string) => fetch(new URL(path, runtime.url), { method: "POST" });
  const token = await (await post("/tokens")).text();
  for (const scene of [1, 2, 2, -3]) expect((await post(`/render/${scene}`)).status).toBe(200);
  const base = new URL("/client/v4", runtime.url).href;
  const env = { ...process.env, BASE: await troubled(base), ACCOUNT: "acme", QUEUE: "renders", TOKEN: token };
  const client = spawn(process.execPath, ["test/docs/examples/pull-client.js"], { cwd: ROOT, env, stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void client.kill());
  let said = "";
  client.stdout.on("data", (data) => {
    said += String(data);
  });
  await poll(() => said.includes("rendered 2"), "the client has rendered scene 2");
  const left = async () => {
    const init = { method: "POST", headers: { authorization: `Bearer ${token}`, "content-type": "application/json" }, body: "{}" };
    const { result } = (await (await fetch(`${base}/accounts/acme/queues/renders/messages/pull`, init)).json()) as Pulled;
    return result;
  };
  await poll(async () => (await left()).message_backlog_count === 1, "one message is left");
  expect(said).toBe("rendered 1\nrendered 2\n");
  expect((await left()).messages).toEqual([]);
});

/** The address of a proxy that first cuts connections, then fails, then is busy. */
async function troubled(base: string): Promise<string> {
  const refusals = [undefined, 502, 429];
  const server = createServer(async (request, response) => {
    const status = refusals.shift();
    if (refusals.length === 2) return void request.socket.destroy();
    if (status !== undefined) return void response.writeHead(status, { "retry-after": "0" }).end("busy");
    const { method, headers, url } = request;
    const body = await text(request);
    const sent = { method, headers: { authorization: String(headers.authorization), "content-type": "application/json" }, body };
    const passOn = async () => {
      const answer = await fetch(`${base}${url}`, sent);
      response.writeHead(answer.status).end(await answer.text());
    };
    // The runtime ends before the client, in the middle of the client's request.
    await passOn().catch(() => response.destroy());
  });
  onTestFinished(() => void server.close());
  await once(server.listen(0, "127.0.0.1"), "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

interface Pulled {
  result: { message_backlog_count: number; messages: unknown[] };
}
