import { Hono } from "hono";
import * as z from "zod";
import { crmStoreOf, type EmbeddedEnv } from "../env.ts";

const Faults = z.array(
  z.strictObject({
    match: z.string().default(""),
    key: z.string().optional(),
    whole: z.boolean().optional(),
    status: z.int().min(400).max(599),
    category: z.string().optional(),
    remaining: z.int().min(0).nullable(),
    retryAfter: z.int().min(0).optional(),
    afterEffect: z.boolean().optional(),
  }),
);

const Edit = z.strictObject({
  /** The CRM's id of the contact. With null the request creates a contact. */
  id: z.string().nullable(),
  /** The changed properties. With null the request removes the contact. */
  properties: z.record(z.string(), z.string()).nullable(),
});

const WebhookUrl = z.strictObject({ url: z.url({ protocol: /^https?$/ }).nullable() });

/**
 * The control routes of the embedded CRM, for tests and drills. They inject faults, make a person's edits, and return the CRM's calls,
 * records and messages.
 */
export const crmControl = new Hono<{ Bindings: EmbeddedEnv }>()
  .put("/faults", async (context) => {
    const faults = Faults.safeParse(await context.req.json().catch(() => undefined));
    if (!faults.success) return context.json({ error: z.prettifyError(faults.error) }, 422);
    await crmStoreOf(context.env).setFaults(faults.data);
    return context.body(null, 204);
  })
  .put("/webhook-url", async (context) => {
    const wanted = WebhookUrl.safeParse(await context.req.json().catch(() => undefined));
    if (!wanted.success) return context.json({ error: z.prettifyError(wanted.error) }, 422);
    await crmStoreOf(context.env).setWebhookUrl(wanted.data.url);
    return context.body(null, 204);
  })
  .post("/edits", async (context) => {
    const edit = Edit.safeParse(await context.req.json().catch(() => undefined));
    if (!edit.success) return context.json({ error: z.prettifyError(edit.error) }, 422);
    const edited = await crmStoreOf(context.env).edit(edit.data.id, edit.data.properties);
    if (edited === undefined) return context.json({ error: `The CRM has no contact ${edit.data.id}.` }, 404);
    return typeof edited === "string" ? context.json({ error: edited }, 422) : context.json(edited);
  })
  .get("/calls", async (context) => context.json(await crmStoreOf(context.env).callReport(context.req.query("match"))))
  .get("/deliveries", async (context) => context.json(await crmStoreOf(context.env).deliveryReport()))
  .get("/contacts", async (context) => context.json({ records: await crmStoreOf(context.env).list("contacts") }))
  .get("/companies", async (context) => context.json({ records: await crmStoreOf(context.env).list("companies") }))
  .get("/associations", async (context) => context.json({ associations: await crmStoreOf(context.env).associations() }));
