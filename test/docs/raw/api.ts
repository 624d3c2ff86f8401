import { Hono } from "hono";
import * as z from "zod";
import type { RawEnv } from "./env.ts";
import { accept } from "./intake.ts";
import { type CustomerWelcome, Malformed, readRequest } from "./messages.ts";
import { type Operator, replay, resolve, retry } from "./operate.ts";

const reasoned = z.object({ reason: z.string().min(1).max(500), output: z.unknown().optional(), body: z.unknown().optional() });
const REFUSED: Record<Malformed["reason"], 404 | 422> = {
  invalid_envelope: 422,
  invalid_payload: 422,
  unknown_message_type: 404,
  idempotency_key_reused: 422,
};

export const api = new Hono<{ Bindings: RawEnv; Variables: { by: Operator } }>()
  .onError((error, context) => {
    if (error instanceof Malformed) return context.json({ code: error.reason, detail: error.message }, REFUSED[error.reason]);
    if (error instanceof z.ZodError) return context.json({ code: "invalid_payload", detail: z.prettifyError(error) }, 422);
    if (error instanceof SyntaxError) return context.json({ code: "invalid_json", detail: "The body is not JSON." }, 400);
    console.error(JSON.stringify({ log: "api", error: String(error) }));
    return context.json({ code: "unavailable", detail: "Try again." }, 503);
  })
  .use("/v1/*", async (context, next) => {
    const token = context.req.header("authorization")?.replace(/^Bearer /, "") ?? "";
    const callers = new Map(Object.entries(JSON.parse(context.env.TOKENS) as Record<string, Operator>));
    const by = callers.get(token);
    if (!by) return context.json({ code: "unauthorized", detail: "Send a token: Authorization: Bearer …" }, 401);
    context.set("by", by);
    await next();
  })
  .post("/v1/commands", async (context) => {
    const payload = readRequest(await context.req.json());
    const { tenantId } = context.var.by;
    const command: CustomerWelcome = {
      schema_version: 1,
      message_type: "customer.welcome",
      kind: "command",
      source: "api",
      correlation_id: crypto.randomUUID(),
      causation_id: `request/${crypto.randomUUID()}`,
      idempotency_key: context.req.header("idempotency-key") ?? payload.customer_id,
      subject: payload.customer_id,
      tenant_id: tenantId,
      created_at: new Date().toISOString(),
      traceparent: context.req.header("traceparent") ?? `00-${hex(32)}-${hex(16)}-01`,
      payload_inline: payload,
    };
    const { id, replayed } = await accept(context.env, command);
    return context.json({ instance_id: id, replayed }, 202);
  })
  .get("/v1/instances/:id", async (context) => {
    const row = await context.env.DB.prepare("SELECT id, status, deliveries, error FROM commands WHERE id = ?1 AND tenant_id = ?2")
      .bind(context.req.param("id"), context.var.by.tenantId)
      .first<{ error: string | null }>();
    return row ? context.json({ ...row, error: JSON.parse(row.error ?? "null") }) : context.json({ code: "instance_not_found" }, 404);
  })
  .get("/v1/instances/:id/events", async (context) => {
    const { results } = await context.env.DB.prepare(
      "SELECT o.envelope->>'message_type' AS message_type, o.confirmed_at IS NOT NULL AS confirmed FROM outbox o JOIN commands c ON c.id = o.command_id WHERE c.id = ?1 AND c.tenant_id = ?2",
    )
      .bind(context.req.param("id"), context.var.by.tenantId)
      .all<{ message_type: string; confirmed: number }>();
    return context.json({ items: results.map((row) => ({ ...row, confirmed: row.confirmed === 1 })) });
  })
  .get("/v1/effects", async (context) => {
    const { results } = await context.env.DB.prepare(
      "SELECT e.command_id, e.step, e.state, e.class, e.input, e.error FROM effects e JOIN commands c ON c.id = e.command_id WHERE e.state = 'in_doubt' AND c.tenant_id = ?1",
    )
      .bind(context.var.by.tenantId)
      .all<{ command_id: string; step: string }>();
    const items = results.map((row) => ({ ...row, key: `${row.command_id}~${encodeURIComponent(row.step)}`, instance_id: row.command_id }));
    return context.json({ items });
  })
  .get("/v1/dead-letters", async (context) => {
    const { results } = await context.env.DB.prepare(
      "SELECT id, queue, body, reason, error, state FROM dead_letters WHERE tenant_id = ?1 ORDER BY captured_at DESC, id LIMIT 100",
    )
      .bind(context.var.by.tenantId)
      .all<{ body: string }>();
    return context.json({ items: results.map((row) => ({ ...row, body: JSON.parse(row.body) })) });
  })
  .post("/v1/instances/:id/retry", async (context) => {
    const { reason } = reasoned.parse(await context.req.json());
    const done = await retry(context.env, context.var.by, context.req.param("id"), reason);
    return done ? context.json({}, 202) : context.json({ code: "invalid_transition", detail: "It has not failed." }, 409);
  })
  .post("/v1/effects/:key/:verb{confirm|reject}", async (context) => {
    const { reason, output } = reasoned.parse(await context.req.json());
    const { key, verb } = context.req.param();
    const done = await resolve(context.env, context.var.by, key, verb as "confirm" | "reject", output, reason);
    return done ? context.json({}, 202) : context.json({ code: "invalid_transition", detail: "It is not in doubt." }, 409);
  })
  .post("/v1/dead-letters/:id/replay", async (context) => {
    const { reason, body } = reasoned.parse(await context.req.json());
    const id = await replay(context.env, context.var.by, context.req.param("id"), body, reason);
    return id ? context.json({ instance_id: id }, 202) : context.json({ code: "invalid_transition", detail: "It is not open." }, 409);
  });

function hex(digits: number): string {
  return [...crypto.getRandomValues(new Uint8Array(digits / 2))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
