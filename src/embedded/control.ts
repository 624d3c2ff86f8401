import { Hono } from "hono";
import * as z from "zod";
import { crmControl } from "./crm/control.ts";
import { type EmbeddedEnv, ledgerOf } from "./env.ts";
import { BAD_ANSWERS, UPSTREAMS } from "./schema.ts";

const match = z.string();
const remaining = z.int().min(0).nullable();

const CallFault = z.strictObject({
  upstream: z.enum(UPSTREAMS),
  match,
  status: z.int().min(400).max(599),
  remaining,
  retryAfter: z.int().min(0).optional(),
  afterEffect: z.boolean().optional(),
});

const AnswerFault = z.strictObject({ upstream: z.literal("text"), match, answer: z.enum(BAD_ANSWERS), remaining });

const Faults = z.array(
  z.union([CallFault, AnswerFault], {
    error: `a fault says { upstream, match, status, remaining }, also retryAfter and afterEffect, or { upstream: "text", match, answer, remaining } with an answer that is ${BAD_ANSWERS.join(", ")}`,
  }),
);

/** The control routes of the embedded programs, for tests and drills. They inject faults and return the ledger of calls. */
export const control = new Hono<{ Bindings: EmbeddedEnv }>()
  .route("/crm", crmControl)
  .put("/faults", async (context) => {
    const faults = Faults.safeParse(await context.req.json().catch(() => undefined));
    if (!faults.success) return context.json({ error: z.prettifyError(faults.error) }, 422);
    await ledgerOf(context.env).setFaults(faults.data);
    return context.body(null, 204);
  })
  .delete("/faults", async (context) => {
    await ledgerOf(context.env).setFaults([]);
    return context.body(null, 204);
  })
  .get("/ledger", async (context) => {
    const { upstream, match } = context.req.query();
    return context.json(await ledgerOf(context.env).report({ upstream, match }));
  });
