import { applyD1Migrations, type D1Migration } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { newTrace } from "millrace";
import { deliverTo, dieAt } from "millrace/testing";
import { beforeAll, expect, it, vi } from "vitest";
import { handler } from "./worker.ts";

const own = env as typeof env & { TEST_MIGRATIONS: D1Migration[] };
beforeAll(() => applyD1Migrations(own.DB, own.TEST_MIGRATIONS));

const asked = {
  ...{ kind: "command", message_type: "greet", schema_version: 1, payload_inline: { name: "Ada" } },
  ...{ tenant_id: "acme", source: "test", idempotency_key: "Ada", subject: "Ada" },
  ...{ correlation_id: "a", causation_id: "b", created_at: new Date().toISOString(), traceparent: newTrace() },
};
const consume = (batch: MessageBatch, ctx: ExecutionContext) => handler.queue(batch, own, ctx);
const greeted = async () => (await own.DB.prepare("SELECT name FROM greetings").all()).results;

it("greets once, though the process dies before the message is acknowledged, and it comes again", async () => {
  const death = dieAt("Q03 created, not acknowledged");
  expect(await deliverTo(consume, "millrace", [asked])).toEqual({ acked: 0, retried: 1 });
  expect(death.died()).toBe(true);
  expect(await deliverTo(consume, "millrace", [asked])).toEqual({ acked: 1, retried: 0 });
  await vi.waitFor(async () => expect(await greeted()).toEqual([{ name: "Ada" }]), 30_000);
});
