import { MillraceError, texts } from "millrace";
import { acceptance, bodies, pages, times } from "millrace/http";
import * as z from "zod";
import { type KeptContact, keptContactId, listContacts } from "../systems/contacts/contact.ts";
import { pseudonymOf } from "../systems/contacts/forgotten.ts";
import { contactBookOf } from "../systems/facts/derived/contact-books.ts";
import { askToForget, FIRST } from "../systems/privacy/ask-to-forget.ts";
import { previewOf } from "../systems/privacy/forget.ts";
import { operation } from "./operation.ts";

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

const ForgetPreviewSchema = z
  .object({
    contact_ids: z.array(z.string()).meta({ description: "All contacts that are the same person." }),
    found: CountsSchema,
    waiting: z.int().meta({ description: "The number of rows of running instances, which must end first." }),
    complete: z.boolean().meta({ description: "False if the count was incomplete at the request's time limit." }),
  })
  .meta({ id: "ForgetPreview" });

export const contacts = [
  operation("get", "/v1/contacts", "listContacts", "contacts list", {
    summary: "List imported contacts by id",
    description: "Returns the contacts imported by batches and by the CRM.",
    query: { contact_id: keptContactId.optional(), ...pages.nameQuery(100, 1000) },
    answer: ["A page of contacts", pages.schema(KeptContactSchema)],
    async run({ env, by, query: { contact_id: only, cursor: after = "", limit } }) {
      const found = await listContacts(env.DB, by.tenantId, { after, only }, limit + 1);
      return pages.byName(found, limit, ({ contact_id }) => contact_id, contactView);
    },
  }),
  operation("post", "/v1/contacts/forget", "forgetContact", "contacts forget", {
    summary: "Erase the personal data of a contact",
    description:
      "Removes all data that identifies the person, here and in the CRM, under every identity of the contact. The audit records only counts under a pseudonym (`GET /v1/audit`). The erasure cannot be undone.",
    body: forgetSchema,
    plan: {
      answer: ["A dry run: the data to be removed", ForgetPreviewSchema],
      async run({ env, by, body }) {
        const { contacts, ...preview } = await previewOf(env, by.tenantId, body.contact_id);
        return { contact_ids: contacts, ...preview };
      },
    },
    answer: ["Accepted", z.object({ ...acceptance.shape, person: z.string() }).meta({ id: "ForgetAccepted" })],
    status: 202,
    location: "The instance.",
    repeats: true,
    async run({ env, by: { tenantId, actor }, catalog, body: { contact_id: contactId, dry_run: _, ...rest }, context }) {
      const [accepted] = await askToForget(env, catalog, { tenantId, actor, source: `api/${actor}` }, [{ contactId, ...rest }]);
      if (!accepted || accepted instanceof MillraceError) throw accepted;
      return { ...acceptance.answer(context, accepted), person: pseudonymOf(env, tenantId, contactId) };
    },
  }),
  operation("get", "/v1/contacts/{id}", "getContact", "contacts show", {
    summary: "Get the identity of a contact",
    description:
      "The identity is computed from the `contact_merged` facts. An unknown contact is its own identity. A contact with the name `.` or `..` has no path: use `contact_id` of the list.",
    params: { id: keptContactId },
    answer: ["The contact", KnownContactSchema],
    run: ({ env, by, param }) => contactBookOf(env, by.tenantId).contact(param.id),
  }),
];

function contactView({ updated_at, ...contact }: KeptContact): z.infer<typeof KeptContactSchema> {
  return { ...contact, updated_at: times.iso(updated_at) };
}
