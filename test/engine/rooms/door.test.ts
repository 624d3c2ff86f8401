import { roomTicket } from "millrace/rooms";
import { expect, it } from "vitest";
import { desk, ticker } from "../../probe/rooms.ts";
import { movedClock } from "../pull/lab.ts";
import { Ear, LabRoom, roomEnv } from "./lab.ts";

const offering = (ticket: string) => ({ "sec-websocket-protocol": `millrace.room, ticket.${ticket}` });

async function codeOf(response: Response): Promise<unknown[]> {
  return [response.status, ((await response.json()) as { code: string }).code];
}

it("a browser joins a room with a ticket as WebSocket subprotocol, from the room's own origin or an allowed one", async () => {
  const room = new LabRoom(desk);
  const minted = await room.ask(`${room.path}/tickets`, { authorization: `Bearer ${await room.token("ada", "read")}` }, "POST");
  expect(minted.status).toBe(201);
  const { ticket } = (await minted.json()) as { ticket: string };
  for (const origin of ["http://localhost", "https://console.example.com"]) {
    const { status, headers, webSocket } = await room.upgrade({ origin, ...offering(ticket) });
    expect([status, headers.get("sec-websocket-protocol")]).toEqual([101, "millrace.room"]);
    const ear = new Ear(webSocket as WebSocket);
    expect((await ear.hears("welcome"))[0]?.you).toBe("ada");
  }
  expect(await codeOf(await room.upgrade({ origin: "https://evil.example", ...offering(ticket) }))).toEqual([403, "forbidden"]);
  expect(await codeOf(await room.upgrade({ origin: "null", ...offering(ticket) }))).toEqual([403, "forbidden"]);
});

it("a room's ticket opens that room only, is valid for 30 seconds, and cannot be forged", async () => {
  using clock = movedClock();
  const room = new LabRoom(desk);
  const other = new LabRoom(desk);
  const ticket = roomTicket(roomEnv, desk, room.key, room.tenant, { name: "ada" });
  const [text = "", proof] = ticket.split(".");
  const said = JSON.parse(Buffer.from(text, "base64url").toString());
  const forged = `${Buffer.from(JSON.stringify({ ...said, maySend: true })).toString("base64url")}.${proof}`;
  for (const bad of [forged, text, `${text}.`, "", "a.b.c"])
    expect(await codeOf(await room.upgrade(offering(bad)))).toEqual([401, "unauthorized"]);
  expect(await codeOf(await other.upgrade(offering(ticket)))).toEqual([401, "unauthorized"]);
  expect((await room.upgrade(offering(ticket))).status).toBe(101);
  clock.pass(30_001);
  expect(await codeOf(await room.upgrade(offering(ticket)))).toEqual([401, "unauthorized"]);
});

it("a request to join a room without a token, a ticket, the scope or a WebSocket is refused", async () => {
  const room = new LabRoom(desk);
  const bearer = { authorization: `Bearer ${await room.token("ada", "read")}` };
  expect(await codeOf(await room.upgrade({}))).toEqual([401, "unauthorized"]);
  expect(await codeOf(await room.upgrade({ authorization: "Bearer mr_0000000000000000_no" }))).toEqual([401, "unauthorized"]);
  const enqueues = { authorization: `Bearer ${await room.token("ada", "enqueue")}` };
  expect(await codeOf(await room.upgrade(enqueues))).toEqual([403, "forbidden"]);
  expect(await codeOf(await room.ask(`${room.path}/tickets`, enqueues, "POST"))).toEqual([403, "forbidden"]);
  expect(await codeOf(await room.ask(`${room.path}/tickets`, {}, "POST"))).toEqual([401, "unauthorized"]);
  const plain = await room.ask(room.path, bearer);
  expect(plain.headers.get("upgrade")).toBe("websocket");
  expect(await codeOf(plain)).toEqual([426, "upgrade_required"]);
  expect(await codeOf(await room.upgrade(bearer, "?since=x"))).toEqual([422, "invalid_payload"]);
  expect(await codeOf(await room.ask("/rooms/dresk/a", { upgrade: "websocket", ...bearer }))).toEqual([404, "route_not_found"]);
});

it("a token opens rooms of its own tenant only: the same path with another tenant's token is another room", async () => {
  const room = new LabRoom(desk);
  const other = new LabRoom(desk);
  await room.client.send({ text: "secret" });
  const bearer = { authorization: `Bearer ${await other.token("eve", "read")}` };
  const { webSocket } = await other.ask(room.path, { upgrade: "websocket", ...bearer });
  const eve = new Ear(webSocket as WebSocket);
  expect((await eve.hears("welcome"))[0]).toMatchObject({ messages: [], sequence: 0, present: { names: ["eve"] } });
});

it.each([
  ["bytes", new ArrayBuffer(3), 1003, "text"],
  ["invalid JSON", "{", 1007, "JSON"],
  ["too much", JSON.stringify({ type: "send", body: { text: "x".repeat(2000) } }), 1009, "at most 1000 bytes"],
] as const)(
  "a client of a room that sends %s is disconnected with a code and a reason, and the others still receive",
  async (_, frame, code, reason) => {
    const room = new LabRoom(desk);
    const [ada, bob] = [await room.enter("ada"), await room.enter("bob")];
    ada.say(frame);
    expect(await ada.isClosed()).toEqual({ code, reason: expect.stringContaining(reason) });
    await room.client.send({ text: "on" });
    expect(await bob.hears("message")).toHaveLength(1);
    expect(bob.closed).toBeUndefined();
  },
);

it("a client of a room may send five messages at once and then one per second; one that sends faster is disconnected", async () => {
  using clock = movedClock();
  const room = new LabRoom(desk);
  const ada = await room.enter("ada");
  const five = (from: number) => {
    for (let n = from; n < from + 5; n++) ada.say({ type: "send", body: { text: `${n}` } });
  };
  five(1);
  await ada.hears("message", 5);
  clock.pass(5000);
  five(6);
  await ada.hears("message", 10);
  ada.say({ type: "send", body: { text: "11" } });
  expect(await ada.isClosed()).toEqual({ code: 4429, reason: expect.stringContaining("at most 5 at once") });
  expect(await room.object.look()).toMatchObject({ sequence: 10 });
});

it.each([
  [
    "a client that sends a message without the required scope",
    ["read"],
    { type: "send", body: { text: "hi" }, key: "k" },
    "forbidden",
    "k",
  ],
  [
    "a client that sends an invalid message body",
    ["read", "operate"],
    { type: "send", body: { txt: "hi" }, key: "k" },
    "invalid_payload",
    "k",
  ],
  ["a client that sends an unknown type of frame", ["read", "operate"], { type: "shout", body: 1 }, "invalid_payload", undefined],
  ["a client that sends a frame without a body", ["read", "operate"], { type: "send", key: "k" }, "invalid_payload", "k"],
  [
    "a client that sends a sender's name in its frame",
    ["read", "operate"],
    { type: "send", body: { text: "hi" }, from: "root", key: "k" },
    "invalid_payload",
    "k",
  ],
  [
    "a client that sends a number beyond the range of JSON",
    ["read", "operate"],
    '{"type":"send","body":12345678901234567890,"key":"k"}',
    "invalid_payload",
    "k",
  ],
  ["a client that sends an empty key", ["read", "operate"], { type: "send", body: { text: "hi" }, key: "" }, "invalid_payload", undefined],
] as const)("%s gets an error from the room, and remains connected", async (_, scopes, frame, code, key) => {
  const room = new LabRoom(desk);
  const ada = await room.enter("ada", { scopes: [...scopes] });
  ada.say(frame);
  const [refused] = await ada.hears("refused");
  expect([refused?.code, refused?.key]).toEqual([code, key]);
  expect([ada.closed, (await room.object.look()).sequence]).toEqual([undefined, 0]);
});

it("a message of the room's maximum size in bytes is accepted in any encoding, and a message one byte larger is refused", async () => {
  const room = new LabRoom(desk);
  const [ada, bob] = [await room.enter("ada"), await room.enter("bob")];
  const most = "界".repeat(329);
  const escaped = [...most].map((one) => `\\u${one.charCodeAt(0).toString(16)}`).join("");
  const key = "🙂".repeat(200);
  ada.say({ type: "send", body: { text: `${most}12` }, key });
  ada.say(`{ "type": "send", "body": { "text": "${escaped}34" } }`);
  expect((await bob.hears("message", 2)).map(({ body }) => body)).toEqual([{ text: `${most}12` }, { text: `${most}34` }]);
  ada.say({ type: "send", body: { text: `${most}567` } });
  expect(await ada.isClosed()).toMatchObject({ code: 1009 });
});

it("a room's key of 200 characters is accepted, and a longer one or one that is too long as an object name is refused", async () => {
  const room = new LabRoom(desk);
  const headers = { upgrade: "websocket", authorization: `Bearer ${await room.token("ada", "read")}` };
  const at = (key: string) => room.ask(`/rooms/desk/${encodeURIComponent(key)}`, headers);
  expect((await at("🙂".repeat(200))).status).toBe(101);
  expect(await codeOf(await at("🙂".repeat(201)))).toEqual([422, "invalid_payload"]);
  expect(await codeOf(await at("\u0001".repeat(200)))).toEqual([422, "invalid_payload"]);
});

it.each([
  ["a name of more than 100 characters", { name: "n".repeat(101) }, "name"],
  ["an invisible name", { name: "\u200b " }, "name"],
  ["an expiry that is not a number", { name: "ada", until: Number.NaN }, "until"],
  ["an expiry that is a text", { name: "ada", until: "soon" as never }, "until"],
])("a room's ticket with %s is not issued", (_, guest, path) => {
  const writing = () => roomTicket(roomEnv, desk, "front", "acme", guest);
  expect(writing).toThrow(expect.objectContaining({ code: "invalid_payload", message: expect.stringContaining(path) }));
});

it("a token cannot send messages to a room where only Workers send", async () => {
  const room = new LabRoom(ticker);
  const ada = await room.enter("ada");
  ada.say({ type: "send", body: 1 });
  expect((await ada.hears("refused"))[0]?.code).toBe("forbidden");
});

it("a client with an expired token gets no further messages, and a dismissed client is disconnected", async () => {
  using clock = movedClock();
  const room = new LabRoom(desk);
  const soon = roomTicket(roomEnv, desk, room.key, room.tenant, { name: "ada", until: Date.now() + 60_000 });
  const ada = new Ear((await room.upgrade(offering(soon))).webSocket as WebSocket);
  const bob = await room.enter("bob");
  clock.pass(60_001);
  await room.client.send({ text: "later" });
  expect(await ada.isClosed()).toMatchObject({ code: 4401 });
  expect(ada.of("message")).toEqual([]);
  expect(await room.client.dismiss("bob", "Go home.")).toBe(1);
  expect(await bob.isClosed()).toEqual({ code: 4403, reason: "Go home." });
});

it("a room answers a ping", async () => {
  const ada = await new LabRoom(desk).enter("ada");
  ada.say("ping");
  expect((await ada.hears("refused"))[0]?.code).toBe("pong");
});
