import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import type { RoomMessage } from "../../packages/millrace/src/rooms/history.ts";
import { roomTicket } from "../../packages/millrace/src/rooms/ticket.ts";
import { inMemory } from "../in-memory.ts";
import { poll } from "./poll.ts";
import { KEY, startRuntime } from "./runtime.ts";

/** Read from its folder: it is code for a browser, and has no types. */
const CLIENT = "../docs/examples/room-client.js";

it("the client of docs/rooms.md survives a refused ticket, and sends more messages than the room's rate accepts, once and in order", async () => {
  const folder = mkdtempSync(join(inMemory() ?? tmpdir(), "millrace-room-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const runtime = await startRuntime(folder);
  onTestFinished(() => runtime.stop());
  const address = new URL("/rooms/desk/front", runtime.url);
  address.protocol = "ws:";
  const heard: RoomMessage[] = [];
  let asked = 0;
  const ticketOf = async () => {
    if (++asked === 1) throw new Error("The back end is unavailable.");
    return roomTicket({ MILLRACE_KEY: KEY }, { name: "desk" }, "front", "acme", { name: "Ada", maySend: true });
  };
  const { enterRoom } = await import(CLIENT);
  const client = enterRoom(address.href, ticketOf, (message: RoomMessage) => heard.push(message));
  onTestFinished(() => client.leave());
  const texts = Array.from({ length: 12 }, (_, n) => `${n}`);
  for (const text of texts) client.say({ text });
  await poll(() => heard.length >= texts.length, "all is heard");
  expect(heard.map(({ body }) => (body as { text: string }).text)).toEqual(texts);
  expect(heard.map(({ sequence }) => sequence)).toEqual(texts.map((_, n) => n + 1));
});
