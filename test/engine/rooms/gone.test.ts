import { roomTicket } from "millrace/rooms";
import { expect, it } from "vitest";
import { desk } from "../../probe/rooms.ts";
import { movedClock } from "../pull/lab.ts";
import { Ear, LabRoom, roomEnv } from "./lab.ts";

const say = (text: string) => ({ type: "send", body: { text } });

/** Cases in which a room disconnects a client that does not close its socket and continues to send. */
const SENT_AWAY: [why: string, code: number, away: (room: LabRoom, deaf: Ear) => unknown][] = [
  ["is dismissed", 4403, (room) => room.client.dismiss("ada")],
  ["sends bytes", 1003, (_, deaf) => deaf.say(new ArrayBuffer(3))],
  ["sends invalid JSON", 1007, (_, deaf) => deaf.say("{")],
  ["sends too much", 1009, (_, deaf) => deaf.say(say("x".repeat(1000)))],
  [
    "is too fast",
    4429,
    (_, deaf) => {
      for (let n = 0; n < 6; n++) deaf.say({});
    },
  ],
];

it.each(SENT_AWAY)(
  "a client that %s leaves the room although its socket remains open: the client receives nothing, and `left` is sent once",
  async (_, code, away) => {
    using clock = movedClock();
    const room = new LabRoom(desk);
    const bob = await room.enter("bob");
    const ada = await room.enter("ada", { isDeaf: true });
    await away(room, ada);
    expect(await ada.isClosed()).toMatchObject({ code });
    await bob.hears("left");
    clock.pass(60_000);
    for (const text of ["still", "here"]) ada.say(say(text));
    await room.client.send({ text: "on" });
    expect((await bob.hears("message")).map(({ sequence, from }) => [sequence, from])).toEqual([[1, null]]);
    expect(await room.object.look()).toMatchObject({ sockets: 1, present: 1, sequence: 1 });
    expect((await room.enter("cyd")).welcome?.present).toEqual({ count: 2, names: ["bob", "cyd"] });
    expect(await room.client.dismiss("ada")).toBe(0);
    ada.close();
    await room.enter("dan");
    await bob.hears("joined", 3);
    expect([bob.of("left"), ada.of("message"), ada.of("refused").filter(({ code }) => code !== "invalid_payload")]).toEqual([
      [{ type: "left", who: "ada" }],
      [],
      [],
    ]);
  },
);

it("a client with an expired token leaves the room at the next message, and an erased room has no record of the client", async () => {
  using clock = movedClock();
  const room = new LabRoom(desk);
  const ticket = roomTicket(roomEnv, desk, room.key, room.tenant, { name: "ada", maySend: true, until: Date.now() + 60_000 });
  const upgraded = await room.upgrade({ "sec-websocket-protocol": `millrace.room, ticket.${ticket}` });
  const ada = new Ear(upgraded.webSocket as WebSocket, { isDeaf: true });
  const bob = await room.enter("bob", { isDeaf: true });
  clock.pass(60_001);
  await room.client.send({ text: "later" });
  await bob.hears("left");
  ada.say(say("still here"));
  expect(await room.object.look()).toMatchObject({ sockets: 1, present: 1, sequence: 1 });
  await room.object.erase();
  expect(await bob.isClosed()).toMatchObject({ code: 4403 });
  bob.say(say("still here"));
  expect(await room.object.look()).toMatchObject({ sockets: 0, present: 0, sequence: 0 });
});
