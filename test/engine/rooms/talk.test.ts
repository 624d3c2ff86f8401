import { defineRoom, roomObject, roomOf } from "millrace/rooms";
import { expect, it } from "vitest";
import { desk, nowhere, ticker } from "../../probe/rooms.ts";
import { until } from "../../until.ts";
import { rowsWritten } from "../written.ts";
import { LabRoom, roomEnv } from "./lab.ts";

const say = (text: string, key?: string) => ({ type: "send", body: { text }, ...(key && { key }) });

it("a message to a room reaches all clients, in one order, with the sender's name from the token", async () => {
  const room = new LabRoom(desk);
  const [ada, bob] = [await room.enter("ada"), await room.enter("bob")];
  ada.say(say("one"));
  await bob.hears("message", 1);
  bob.say(say("two"));
  await room.client.send({ text: "three" });
  const heard = (await ada.hears("message", 3)).map(({ sequence, from, body }) => [sequence, from, body]);
  expect(heard).toEqual([
    [1, "ada", { text: "one" }],
    [2, "bob", { text: "two" }],
    [3, null, { text: "three" }],
  ]);
  expect((await bob.hears("message", 3)).map(({ sequence }) => sequence)).toEqual([1, 2, 3]);
});

it("a message to a room with NaN is refused, because JSON would change it to null", async () => {
  const room = new LabRoom(desk);
  await expect(room.client.send({ text: "one", rate: 0 / 0 } as never)).rejects.toMatchObject({
    code: "invalid_payload",
    message: expect.stringContaining('NaN at "rate"'),
  });
  expect((await room.enter("ada")).welcome).toMatchObject({ messages: [] });
});

it("a client that joins a room gets the last fifty messages, and one that rejoins with `since` gets only the missed ones", async () => {
  const room = new LabRoom(desk);
  for (let n = 1; n <= 60; n++) await room.client.send({ text: `${n}` });
  const { welcome } = await room.enter("ada");
  expect(welcome).toMatchObject({ you: "ada", sequence: 60, missed: false });
  expect(welcome?.messages.map(({ sequence }) => sequence)).toEqual(Array.from({ length: 50 }, (_, n) => n + 11));
  const again = (await room.enter("ada", { since: 57 })).welcome;
  expect([again?.missed, again?.messages.map(({ body }) => body)]).toEqual([false, [{ text: "58" }, { text: "59" }, { text: "60" }]]);
  expect((await room.enter("ada", { since: 60 })).welcome).toMatchObject({ missed: false, messages: [] });
  const late = (await room.enter("ada", { since: 9 })).welcome;
  expect([late?.missed, late?.messages.length]).toEqual([true, 50]);
  expect((await room.enter("ada", { since: 10 })).welcome).toMatchObject({ missed: false });
});

it("the history that a room sends at a join has a maximum size in bytes", async () => {
  const room = new LabRoom(ticker);
  for (const body of ["a".repeat(60), "b".repeat(60), "c"]) await room.client.send(body);
  const { welcome } = await room.enter("ada", { since: 0 });
  expect([welcome?.missed, welcome?.messages.map(({ sequence }) => sequence)]).toEqual([true, [2, 3]]);
});

it("a message to a room writes one row, which replaces an old one", async () => {
  const room = new LabRoom(ticker);
  for (let n = 1; n <= 210; n++) await room.client.send(n, { idempotencyKey: `${n}` });
  expect(await rowsWritten(room.object, () => room.client.send("one"))).toBe(1);
  expect(await rowsWritten(room.object, () => room.client.send("two", { idempotencyKey: "two" }))).toBe(1);
  expect((await room.client.send(210, { idempotencyKey: "210" })).duplicate).toBe(true);
  expect((await room.client.send(13, { idempotencyKey: "13" })).duplicate).toBe(true);
});

it("two messages to a room with one key are one message, from a Worker and from a client; the client receives it again", async () => {
  const room = new LabRoom(desk);
  const [ada, bob] = [await room.enter("ada"), await room.enter("bob")];
  expect(await room.client.send({ text: "paid" }, { idempotencyKey: "order/7", from: "till" })).toEqual({ sequence: 1, duplicate: false });
  expect(await room.client.send({ text: "paid" }, { idempotencyKey: "order/7", from: "till" })).toEqual({ sequence: 1, duplicate: true });
  ada.say(say("hello", "order/7"));
  ada.say(say("hello", "order/7"));
  await ada.hears("message", 3);
  bob.say(say("from bob", "order/7"));
  expect((await ada.hears("message", 4)).map(({ sequence, from, key }) => [sequence, from, key])).toEqual([
    [1, "till", undefined],
    [2, "ada", "order/7"],
    [2, "ada", "order/7"],
    [3, "bob", undefined],
  ]);
});

it("the idempotency key of a room's message belongs to the sender's name: the same key of another sender is another message", async () => {
  const room = new LabRoom(desk);
  const [ada, odd] = [await room.enter("ada"), await room.enter("ada/x")];
  ada.say(say("one", "x/1"));
  await odd.hears("message");
  odd.say(say("two", "1"));
  expect((await ada.hears("message", 2)).map(({ from, body }) => [from, body])).toEqual([
    ["ada", { text: "one" }],
    ["ada/x", { text: "two" }],
  ]);
});

it("a client that joins a room gets the list of members, and then each join and leave, once per name for any number of sockets", async () => {
  const room = new LabRoom(desk);
  const ada = await room.enter("ada");
  const bobs = [await room.enter("bob"), await room.enter("bob")];
  expect((await room.enter("cyd")).welcome?.present).toEqual({ count: 3, names: ["ada", "bob", "cyd"] });
  bobs[0]?.close();
  await bobs[0]?.isClosed();
  bobs[1]?.close();
  await ada.hears("left");
  expect([ada.of("joined").map(({ who }) => who), ada.of("left").map(({ who }) => who)]).toEqual([["bob", "cyd"], ["bob"]]);
  expect(
    await until(
      () => room.object.look(),
      ({ sockets }) => sockets === 2,
    ),
  ).toMatchObject({ present: 2, sockets: 2 });
});

it("a room without presence sends no list of members, and a full room refuses joins", async () => {
  const room = new LabRoom(ticker);
  const ada = await room.enter("ada");
  const bob = await room.enter("bob");
  expect(bob.welcome?.present).toEqual({ count: 0, names: [] });
  await room.client.send("tick");
  await ada.hears("message");
  expect(ada.of("joined")).toEqual([]);
  const refused = await room.upgrade({ authorization: `Bearer ${await room.token("cyd", "read")}` });
  expect([refused.status, await refused.json()]).toMatchObject([429, { code: "rate_limited" }]);
});

it("a room limits the sockets of one name, so that other clients can join", async () => {
  const room = new LabRoom(desk);
  const sockets = await Promise.all(Array.from({ length: 8 }, () => room.enterAs("ada")));
  const [refused, other] = await Promise.all([
    room.token("ada", "read").then((token) => room.upgrade({ authorization: `Bearer ${token}` })),
    room.enter("bob"),
  ]);
  expect([refused.status, await refused.json()]).toMatchObject([429, { code: "rate_limited", detail: expect.stringContaining("name") }]);
  expect(other.welcome?.present).toMatchObject({ count: 2 });
  sockets[0]?.close();
  await until(
    () => room.object.look(),
    ({ sockets: open }) => open === 8,
  );
  await room.enter("ada");
});

it("a crash of a room's object loses no message: its sockets are closed, and clients rejoin with `since`", async () => {
  const room = new LabRoom(desk);
  const ada = await room.enter("ada");
  await room.client.send({ text: "before" });
  const [{ sequence } = { sequence: 0 }] = await ada.hears("message");
  await room.client.send({ text: "right before" }, { idempotencyKey: "k" });
  await room.crash();
  await ada.isClosed();
  expect(await room.client.send({ text: "right before" }, { idempotencyKey: "k" })).toEqual({ sequence: 2, duplicate: true });
  await room.client.send({ text: "meanwhile" });
  const { welcome } = await room.enter("ada", { since: sequence });
  expect([welcome?.missed, welcome?.messages.map(({ body }) => body)]).toEqual([false, [{ text: "right before" }, { text: "meanwhile" }]]);
});

it("a send to an unknown room, a too large body and a body without JSON give an error to the caller", async () => {
  const large = new LabRoom(desk).client.send({ text: "x".repeat(1000) });
  await expect(large).rejects.toMatchObject({ code: "payload_too_large" });
  await expect(new LabRoom(desk).client.send(undefined)).rejects.toMatchObject({ code: "invalid_payload" });
  const unknown = new LabRoom(nowhere).client.send(1);
  await expect(unknown).rejects.toMatchObject({ code: "config_invalid", message: expect.stringContaining("roomObject([…])") });
});

it("a room with an invalid tenant or a too long key, and a message with a deeply nested body, are refused", async () => {
  const at =
    (key: string, tenant = "acme") =>
    () =>
      roomOf(roomEnv, desk, key, tenant);
  expect(at("🙂".repeat(200))).not.toThrow();
  expect(at("🙂".repeat(201))).toThrow(expect.objectContaining({ code: "invalid_payload" }));
  expect(at("front", "Acme")).toThrow(expect.objectContaining({ code: "invalid_payload", message: expect.stringContaining('"Acme"') }));
  const nested = JSON.parse(`${"[".repeat(65)}${"]".repeat(65)}`);
  await expect(new LabRoom(ticker).client.send(nested)).rejects.toMatchObject({
    code: "invalid_payload",
    message: expect.stringContaining("body"),
  });
});

it.each([
  ["rate.perSecond", { rate: { burst: 1, perSecond: Number.NaN } }],
  ["rate.perSecond", { rate: { burst: 1, perSecond: 0 } }],
  ["presence", { presence: -1 }],
])("a room's definition with the invalid option %s is refused", (what, wrong) => {
  expect(() => roomObject([defineRoom({ name: "desk", ...wrong })])).toThrow(what);
});

it.each([
  ["an invalid message schema: pass a zod 4 schema", { message: {} }],
  ["history -1: set { messages, bytes }", { history: -1 }],
  ["history a day: set { messages, bytes }", { history: "a day" }],
])("a room's definition with %s is refused", (what, wrong) => {
  expect(() => roomObject([defineRoom({ name: "desk", ...(wrong as object) })])).toThrow(`The room "desk" has ${what}`);
});

it("two definitions of rooms with one name are refused", () => {
  expect(() => roomObject([desk, ticker, defineRoom({ name: "desk" })])).toThrow('Two kinds of rooms are called "desk"');
});

it("an erased room has no history, and reports missed messages to a client with an old `since`", async () => {
  const room = new LabRoom(desk);
  const ada = await room.enter("ada");
  await room.client.send({ text: "secret" });
  await room.object.erase();
  expect(await ada.isClosed()).toMatchObject({ code: 4403 });
  expect((await room.enter("ada", { since: 1 })).welcome).toMatchObject({ missed: true, messages: [], sequence: 0 });
});
