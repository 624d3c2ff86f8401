import { roomTicket } from "millrace";
import { expect, it } from "vitest";
import { desk, ticker } from "../../probe/rooms.ts";
import { movedClock } from "../pull/lab.ts";
import { Ear, LabRoom, roomEnv } from "./lab.ts";

const offering = (ticket: string) => ({ "sec-websocket-protocol": `millrace.room, ticket.${ticket}` });

async function codeOf(response: Response): Promise<unknown[]> {
  return [response.status, ((await response.json()) as { code: string }).code];
}

it("a browser joins with a token's ticket, as a subprotocol, from the room's own origin or an allowed one", async () => {
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

it("a ticket opens its own room only, for thirty seconds, and cannot be forged", async () => {
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

it("a request without a token, a ticket, the scope or a WebSocket is refused", async () => {
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

it("a token opens rooms of its own tenant: the same address for another tenant is another room", async () => {
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
  "a client that sends %s is disconnected with a code and a reason, and the others still receive",
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

it("a client that sends too fast is disconnected: five messages at once, and then one per second are permitted", async () => {
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
  ["a client that may only listen", ["read"], { type: "send", body: { text: "hi" }, key: "k" }, "forbidden", "k"],
  ["a body that does not fit", ["read", "operate"], { type: "send", body: { txt: "hi" }, key: "k" }, "invalid_payload", "k"],
  ["a frame that is none", ["read", "operate"], { type: "shout", body: 1 }, "invalid_payload", undefined],
  ["a frame without a body", ["read", "operate"], { type: "send", key: "k" }, "invalid_payload", "k"],
  [
    "a client with its own name",
    ["read", "operate"],
    { type: "send", body: { text: "hi" }, from: "root", key: "k" },
    "invalid_payload",
    "k",
  ],
  ["a number beyond JSON's", ["read", "operate"], '{"type":"send","body":12345678901234567890,"key":"k"}', "invalid_payload", "k"],
  ["a key that is none", ["read", "operate"], { type: "send", body: { text: "hi" }, key: "" }, "invalid_payload", undefined],
] as const)("%s gets an error, and the client remains connected", async (_, scopes, frame, code, key) => {
  const room = new LabRoom(desk);
  const ada = await room.enter("ada", { scopes: [...scopes] });
  ada.say(frame);
  const [refused] = await ada.hears("refused");
  expect([refused?.code, refused?.key]).toEqual([code, key]);
  expect([ada.closed, (await room.object.look()).sequence]).toEqual([undefined, 0]);
});

it("a message of the maximum size in bytes is accepted in any framing, and one more byte is refused", async () => {
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

it("a room's key of two hundred characters is accepted for any characters, and a key without a valid object name is refused", async () => {
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
  ["an end that is no number", { name: "ada", until: Number.NaN }, "until"],
  ["an end in words", { name: "ada", until: "soon" as never }, "until"],
])("a ticket with %s is not issued", (_, guest, path) => {
  const writing = () => roomTicket(roomEnv, desk, "front", "acme", guest);
  expect(writing).toThrow(expect.objectContaining({ code: "invalid_payload", message: expect.stringContaining(path) }));
});

it("a token cannot send in a room for Workers only", async () => {
  const room = new LabRoom(ticker);
  const ada = await room.enter("ada");
  ada.say({ type: "send", body: 1 });
  expect((await ada.hears("refused"))[0]?.code).toBe("forbidden");
});

it("a client with an expired token receives nothing more, and a dismissed client is disconnected", async () => {
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

it("a ping is answered", async () => {
  const ada = await new LabRoom(desk).enter("ada");
  ada.say("ping");
  expect((await ada.hears("refused"))[0]?.code).toBe("pong");
});
