import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { inMemory } from "../in-memory.ts";
import { Listener } from "./listener.ts";
import { poll } from "./poll.ts";
import { startRuntime } from "./runtime.ts";

/** To open the full number of sockets: MILLRACE_FULL_SIZE=true npx vitest run --project node test/sockets */
const SOCKETS = process.env.MILLRACE_FULL_SIZE === "true" ? 500 : 50;
/** Sockets that are opened concurrently. */
const AT_ONCE = 25;

async function enterAll(listeners: readonly Listener[], url: URL): Promise<void> {
  for (let at = 0; at < listeners.length; at += AT_ONCE) await Promise.all(listeners.slice(at, at + AT_ONCE).map((one) => one.enter(url)));
}

async function say(url: URL, from: number, to: number): Promise<void> {
  for (let n = from; n <= to; n++) expect((await fetch(new URL(`/say/${n}`, url), { method: "POST" })).status).toBe(200);
}

const hear = (listeners: readonly Listener[], last: number) =>
  poll(() => listeners.every((one) => one.last === last), `all have received message ${last}`);

it(`${SOCKETS} real WebSockets get every message once and in order, through a restart of the runtime`, async () => {
  const folder = mkdtempSync(join(inMemory() ?? tmpdir(), "millrace-rooms-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const listeners = Array.from({ length: SOCKETS }, (_, n) => new Listener(`listener-${n}`));
  const first = await startRuntime(folder);
  const began = performance.now();
  await enterAll(listeners, first.url);
  const entered = performance.now();
  await say(first.url, 1, 10);
  listeners[0]?.say(11);
  await hear(listeners, 11);
  const heard = performance.now();
  first.kill9();
  await poll(() => !listeners.some(({ isOpen }) => isOpen), "every socket is closed");
  const second = await startRuntime(folder);
  onTestFinished(() => second.stop());
  // A message that is sent again after the restart is still the same message; messages also arrive while no listener is connected.
  await say(second.url, 10, 15);
  await enterAll(listeners, second.url);
  await say(second.url, 16, 20);
  const last = 21;
  await hear(listeners, last);
  const all = Array.from({ length: last }, (_, n) => n + 1);
  for (const { heard, missed, welcomes } of listeners)
    expect({ heard, missed, welcomes }).toEqual({ heard: all, missed: false, welcomes: 2 });
  for (const listener of listeners) listener.leave();
  const seconds = (ms: number) => (ms / 1000).toFixed(1);
  console.log(`${SOCKETS} sockets were open after ${seconds(entered - began)} s, and got 11 messages in ${seconds(heard - entered)} s.`);
});
