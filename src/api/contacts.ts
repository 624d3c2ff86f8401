import { createRoute, OpenAPIHono, z } from "@hono/zod-openapi";
import { type KeptContact, listContacts } from "../contacts/contact.ts";
import { chosenName } from "../facts/chosen-name.ts";
import { contactBookOf } from "../objects/contact-books.ts";
import { needs } from "./auth.ts";
import type { ApiEnv } from "./env.ts";
import { nameQuery, pageByName, pageOf } from "./paging.ts";
import { problems } from "./problem.ts";
import { answers } from "./responses.ts";
import { iso, timestamp } from "./time.ts";

const KeptContactSchema = z
  .object({
    contact_id: z.string(),
    email: z.string(),
    name: z.string(),
    properties: z.record(z.string(), z.unknown()),
    revision: z.int().openapi({ description: "How often it was written." }),
    imported_by: z.string().openapi({ description: "The batch that wrote it last; `crm` if that was the CRM." }),
    updated_at: timestamp,
  })
  .openapi("KeptContact");

const KnownContactSchema = z
  .object({
    contact_id: z.string(),
    canonical_id: z.string().openapi({ description: "The contact it is known as; itself, if nobody merged it into another." }),
    merged: z.array(z.string()).openapi({ description: "Every other contact that is known as that one, by name; the first 1,000." }),
    merged_count: z.int(),
  })
  .openapi("KnownContact");

const list = createRoute({
  method: "get",
  path: "/v1/contacts",
  operationId: "listContacts",
  summary: "List the contacts that batches and the CRM brought, in the order of their ids",
  ...needs("read"),
  request: {
    query: z.strictObject({ contact_id: chosenName(200).optional(), ...nameQuery(100, 1000) }),
  },
  responses: {
    200: answers("A page of contacts", pageOf(KeptContactSchema)),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

const show = createRoute({
  method: "get",
  path: "/v1/contacts/{id}",
  operationId: "getContact",
  summary: "Say as whom a contact is known",
  description: "Follows from the `contact_merged` facts that have arrived. A contact nobody has heard of is its own.",
  ...needs("read"),
  request: { params: z.object({ id: chosenName(200) }) },
  responses: {
    200: answers("The contact", KnownContactSchema),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

export function contacts() {
  return new OpenAPIHono<ApiEnv>()
    .openapi(list, async (context) => {
      const { contact_id: only, cursor: after = "", limit } = context.req.valid("query");
      const found = await listContacts(context.env.DB, context.var.caller.tenantId, { after, only }, limit + 1);
      return context.json(
        pageByName(found, limit, ({ contact_id }) => contact_id, contactView),
        200,
      );
    })
    .openapi(show, async ({ env, req, var: { caller }, json }) =>
      json(await contactBookOf(env, caller.tenantId).contact(req.valid("param").id), 200),
    );
}

function contactView({ updated_at, ...contact }: KeptContact): z.infer<typeof KeptContactSchema> {
  return { ...contact, updated_at: iso(updated_at) };
}
