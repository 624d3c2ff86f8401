import { expect, it } from "vitest";
import pull from "../../docs/pull.md?raw";
import { readMessage } from "../../packages/millrace/src/intake/consume/read.ts";
import { app } from "../../src/catalog.ts";
import { fencesOf } from "../docs/markdown.ts";
import { MESSAGES } from "./messages.ts";
import { payloadsOf } from "./payloads.ts";

/** The message that an external program of docs/pull.md publishes to a queue through Cloudflare's API. */
const published = JSON.parse(fencesOf(pull).find(({ comment }) => comment === "publish")?.text ?? "null");

const hex = (...fields: string[]) => Object.fromEntries(fields.map((field) => [field, "a".repeat(32)]));
const trace = { traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01`, tracestate: "a=b" };
/** Texts that any field accepts, unless its schema restricts the text. */
const TEXTS: Record<string, string> = {
  tenant_id: "acme",
  url: "https://acme.example",
  post_url: "https://acme.example/post",
  email: "ada@acme.example",
  person: `forgotten-${"a".repeat(32)}`,
  ...hex("trace_id", "delivery_id"),
  ...trace,
};
const names = new Proxy(TEXTS, { get: (known, field: string) => known[field] ?? "acme" });

const definitionOf = (type: string) => {
  const definition = MESSAGES.find((one) => one.type === type);
  if (!definition) throw new Error(`No such type: ${type}.`);
  return definition;
};

it("the message body of docs/pull.md is accepted by its queue", () => {
  expect(published.content_type).toBe("json");
  const { definition, envelope } = readMessage(published.body, definitionOf);
  expect([definition.queue.name, envelope]).toEqual(["gatherfeed-commands", published.body]);
});

it.each(app.consumers.map(({ queue }) => queue.name))("the body of docs/pull.md, with another message, is accepted by %s", (queue) => {
  const definitions = MESSAGES.filter((one) => one.queue.name === queue);
  expect(definitions).not.toEqual([]);
  for (const definition of definitions) {
    const [payload] = payloadsOf(definition, names);
    const { type: message_type, kind, version: schema_version } = definition;
    const subject = definition.subject(definition.payload.parse(payload));
    const body = JSON.parse(JSON.stringify({ ...published.body, message_type, kind, schema_version, subject, payload_inline: payload }));
    expect(readMessage(body, definitionOf).envelope).toMatchObject({ message_type, tenant_id: "acme" });
    const wrong = () => readMessage({ ...body, payload_inline: 7 }, definitionOf);
    expect(wrong).toThrow(expect.objectContaining({ code: "invalid_payload" }));
  }
});
