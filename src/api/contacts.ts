import { MillraceError, texts } from "millrace";
import { acceptance, answers, bodies, createRoute, needs, pages, Routes, times } from "millrace/http";
import type { Catalog } from "millrace/worker";
import * as z from "zod";
import { type KeptContact, keptContactId, listContacts } from "../systems/contacts/contact.ts";
import { pseudonymOf } from "../systems/contacts/forgotten.ts";
import { contactBookOf } from "../systems/facts/derived/contact-books.ts";
import { askToForget, FIRST } from "../systems/privacy/ask-to-forget.ts";
import { previewOf } from "../systems/privacy/forget.ts";
import type { ApiEnv } from "./env.ts";
import { problems } from "./problems.ts";

const KeptContactSchema = z
  .object({
    contact_id: z.string(),
    email: z.string(),
    name: z.string(),
    properties: z.record(z.string(), z.unknown()),
    revision: z.int().meta({ description: "Number of writes." }),
    imported_by: z.string().meta({ description: "The batch that last wrote the contact; `crm` if the CRM wrote it last." }),
    updated_at: times.timestamp,
  })
  .meta({ id: "KeptContact" });

const KnownContactSchema = z
  .object({
    contact_id: z.string(),
    canonical_id: z.string().meta({ description: "The canonical contact after merges; without merges the contact itself." }),
    merged: z
      .array(z.string())
      .meta({ description: "All other contacts that were merged into the canonical one, by name; at most 1,000." }),
    merged_count: z.int(),
  })
  .meta({ id: "KnownContact" });

const list = createRoute({
  method: "get",
  path: "/v1/contacts",
  operationId: "listContacts",
  command: "contacts list",
  summary: "List imported contacts by id",
  description: "Returns the contacts imported by batches and by the CRM.",
  ...needs("read"),
  request: {
    query: z.strictObject({ contact_id: keptContactId.optional(), ...pages.nameQuery(100, 1000) }),
  },
  responses: {
    200: answers("A page of contacts", pages.schema(KeptContactSchema)),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

const show = createRoute({
  method: "get",
  path: "/v1/contacts/{id}",
  operationId: "getContact",
  command: "contacts show",
  summary: "Get the identity of a contact",
  description:
    "The identity is computed from the `contact_merged` facts. An unknown contact is its own identity. A contact with the name `.` or `..` has no path: use `contact_id` of the list.",
  ...needs("read"),
  request: { params: z.object({ id: keptContactId }) },
  responses: {
    200: answers("The contact", KnownContactSchema),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

const forgetSchema = bodies.reasoned.extend({
  contact_id: keptContactId,
  request: texts.chosenName(100).default(FIRST).meta({
    description: "The name of the request: requests with the same name are one search; another name starts another search.",
  }),
  dry_run: z.boolean().default(false).meta({ description: "True only counts." }),
});

const CountsSchema = z
  .record(z.string(), z.int())
  .meta({ description: "The number of rows, objects or facts, by the place where they are stored." });

const forget = createRoute({
  method: "post",
  path: "/v1/contacts/forget",
  operationId: "forgetContact",
  command: "contacts forget",
  summary: "Erase the personal data of a contact",
  description:
    "Removes all data that identifies the person, here and in the CRM, under every identity of the contact. The audit records only counts under a pseudonym (`GET /v1/audit`). The erasure cannot be undone.",
  ...needs("operate"),
  request: { body: bodies.json(forgetSchema) },
  responses: {
    200: answers(
      "A dry run: the data to be removed",
      z
        .object({
          contact_ids: z.array(z.string()).meta({ description: "All contacts that are the same person." }),
          found: CountsSchema,
          waiting: z.int().meta({ description: "The number of rows of running instances, which must end first." }),
          complete: z.boolean().meta({ description: "False if the count was incomplete at the request's time limit." }),
        })
        .meta({ id: "ForgetPreview" }),
    ),
    202: acceptance.answer(z.object({ ...acceptance.shape, person: z.string() }).meta({ id: "ForgetAccepted" })),
    ...problems(...bodies.refusals),
  },
});

export function contacts(catalog: Catalog) {
  return new Routes<ApiEnv>()
    .openapi(list, async (context) => {
      const { contact_id: only, cursor: after = "", limit } = context.req.valid("query");
      const found = await listContacts(context.env.DB, context.var.caller.tenantId, { after, only }, limit + 1);
      return context.json(
        pages.byName(found, limit, ({ contact_id }) => contact_id, contactView),
        200,
      );
    })
    .openapi(forget, async (context) => {
      const { contact_id: contactId, dry_run: isDry, ...rest } = await bodies.read(context.req, forgetSchema);
      const { env, var: bound } = context;
      const { tenantId, actor } = bound.caller;
      if (isDry) {
        const { contacts: ids, ...preview } = await previewOf(env, tenantId, contactId);
        return context.json({ contact_ids: ids, ...preview }, 200);
      }
      const [accepted] = await askToForget(env, catalog, { tenantId, actor, source: `api/${actor}` }, [{ contactId, ...rest }]);
      if (!accepted || accepted instanceof MillraceError) throw accepted;
      const answer = { ...acceptance.view(accepted), person: pseudonymOf(env, tenantId, contactId) };
      return context.json(answer, 202, acceptance.headers(accepted));
    })
    .openapi(show, async ({ env, req, var: { caller }, json }) =>
      json(await contactBookOf(env, caller.tenantId).contact(req.valid("param").id), 200),
    );
}

function contactView({ updated_at, ...contact }: KeptContact): z.infer<typeof KeptContactSchema> {
  return { ...contact, updated_at: times.iso(updated_at) };
}
