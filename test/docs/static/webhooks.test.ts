import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type AddressInfo, connect } from "node:net";
import { join, resolve } from "node:path";
import { Webhook } from "standardwebhooks";
import { expect, it, onTestFinished } from "vitest";
import { receiver } from "../examples/receiver.ts";
import { rowsOf } from "../markdown.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const [old, present, foreign] = ["a", "b", "c"].map((letter) => `whsec_${Buffer.from(letter.repeat(32)).toString("base64")}`) as [
  string,
  string,
  string,
];
const body = JSON.stringify({ type: "outcome", timestamp: "2026-10-01T09:30:00Z", data: { fact_id: "f1" } });

it("the receiver of docs/webhooks.md accepts requests signed by one of its secrets, once, and no other request", async () => {
  const taken: unknown[] = [];
  const server = receiver([old, present], (fact) => taken.push(fact)).listen(0);
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`;
  const post = async (secrets: string[], { id = "1", at = new Date(), sent = body } = {}) => {
    const signature = secrets.map((secret) => new Webhook(secret).sign(id, at, body)).join(" ");
    const headers = { "webhook-id": id, "webhook-timestamp": String(Math.floor(at.getTime() / 1000)), "webhook-signature": signature };
    return (await fetch(url, { method: "POST", headers, body: sent })).status;
  };
  expect(await post([foreign])).toBe(401);
  expect(await post([present], { sent: `${body} ` })).toBe(401);
  expect(await post([present], { at: new Date(Date.now() - 360_000) })).toBe(401);
  expect(taken).toEqual([]);
  for (const secrets of [[present, old], [old], [present]]) expect(await post(secrets)).toBe(204);
  expect(taken).toEqual([JSON.parse(body)]);
  expect(await post([present], { id: "2" })).toBe(204);
  expect(taken).toHaveLength(2);
  const halfway = connect((server.address() as AddressInfo).port, "127.0.0.1");
  halfway.write(`POST /hooks HTTP/1.1\r\nhost: receiver\r\ncontent-length: ${body.length}\r\n\r\n${body.slice(0, 9)}`);
  await once(server, "request");
  halfway.destroy();
  expect(await post([present], { id: "3" })).toBe(204);
});

it("docs/settings.md lists every variable of webhooks, and no other", () => {
  const settings = readFileSync(join(ROOT, "src/systems/webhooks/settings.ts"), "utf8");
  const read = [...settings.matchAll(/^ {2}(\w+)\?: string;$/gm)].map(([, name = ""]) => name);
  const rows = rowsOf(readFileSync(join(ROOT, "docs/settings.md"), "utf8"), "webhook variable");
  expect(rows.map(([name]) => name?.replaceAll("`", "")).sort()).toEqual(read.sort());
});
