import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { ROOT } from "../../src/cli/local/wrangler.ts";
import { inMemory } from "../in-memory.ts";
import { poll } from "./poll.ts";
import { startRuntime } from "./runtime.ts";

it("the client of docs/pull.md takes what a Worker sent, each message once, and gives back what it cannot do", async () => {
  const folder = mkdtempSync(join(inMemory() ?? tmpdir(), "millrace-pull-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const runtime = await startRuntime(folder);
  onTestFinished(() => runtime.stop());
  const post = (path: string) => fetch(new URL(path, runtime.url), { method: "POST" });
  const token = await (await post("/tokens")).text();
  for (const scene of [1, 2, 2, -3]) expect((await post(`/render/${scene}`)).status).toBe(200);
  const base = new URL("/client/v4", runtime.url).href;
  const env = { ...process.env, BASE: base, ACCOUNT: "acme", QUEUE: "renders", TOKEN: token };
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

interface Pulled {
  result: { message_backlog_count: number; messages: unknown[] };
}
