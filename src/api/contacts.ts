import { createRoute, OpenAPIHono, z } from "@hono/zod-openapi";
import { type KeptContact, listContacts } from "../batches/contacts.ts";
import { needs } from "./auth.ts";
import type { ApiEnv } from "./env.ts";
import { pageOf } from "./paging.ts";
import { problems } from "./problem.ts";
import { answers } from "./responses.ts";
import { iso, timestamp } from "./time.ts";

const ContactSchema = z
  .object({
    contact_id: z.string(),
    email: z.string(),
    name: z.string(),
    properties: z.record(z.string(), z.unknown()),
    revision: z.int().openapi({ description: "How often it was written." }),
    imported_by: z.string().openapi({ description: "The batch that wrote it last." }),
    updated_at: timestamp,
  })
  .openapi("Contact");

const list = createRoute({
  method: "get",
  path: "/v1/contacts",
  summary: "List contacts, in the order of their ids",
  ...needs("read"),
  request: {
    query: z.strictObject({
      cursor: z.string().max(200).default("").openapi({ description: "The `next_cursor` of the page before." }),
      limit: z.coerce.number().int().min(1).max(1000).default(100).openapi({ type: "integer", minimum: 1, maximum: 1000, default: 100 }),
    }),
  },
  responses: {
    200: answers("A page of contacts", pageOf(ContactSchema)),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

export function contacts() {
  return new OpenAPIHono<ApiEnv>().openapi(list, async (context) => {
    const { cursor, limit } = context.req.valid("query");
    const found = await listContacts(context.env.DB, context.var.caller.tenantId, cursor, limit);
    const next = found.length === limit ? (found.at(-1)?.contact_id ?? null) : null;
    return context.json({ items: found.map(contactView), next_cursor: next }, 200);
  });
}

function contactView({ updated_at, ...contact }: KeptContact): z.infer<typeof ContactSchema> {
  return { ...contact, updated_at: iso(updated_at) };
}
