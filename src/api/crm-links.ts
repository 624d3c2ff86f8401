import { texts } from "millrace";
import { pages, times } from "millrace/http";
import * as z from "zod";
import { keptContactId } from "../systems/contacts/contact.ts";
import { LINK_STATES } from "../systems/crm/links.ts";
import { listStandings, type Standing } from "../systems/crm/standing.ts";
import { byContact } from "./crm-syncs.ts";
import { operation } from "./operation.ts";

const LinkSchema = z
  .object({
    contact_id: z.string(),
    crm_id: z.string().nullable(),
    state: z.enum(LINK_STATES).meta({
      description:
        "`none`: the contact was never in the CRM. `merged`: the contact was merged into another one, which has the record. `cut`: the contact's record was deleted in the CRM.",
    }),
    revision: z.int().meta({ description: "The contact's own." }),
    synced_revision: z.int().meta({ description: "The contact's revision in the CRM." }),
    pending: z.boolean().meta({ description: "True if the next sync sends the contact to the CRM." }),
    error: z.object({ category: z.string(), message: z.string(), correlation_id: z.string().nullable() }).nullable(),
    updated_at: times.timestamp.nullable(),
  })
  .meta({ id: "CrmLink" });

export const crmLinks = [
  operation("get", "/v1/crm/links", "listCrmLinks", "crm-links list", {
    summary: "List the CRM links of contacts, by contact id",
    description: "Returns each contact with its record in the CRM and the state of their link.",
    query: {
      contact_id: keptContactId.optional(),
      crm_id: texts.chosenName(64).optional(),
      pending: z.enum(["true", "false"]).optional(),
      ...byContact,
    },
    answer: ["A page of links", pages.schema(LinkSchema)],
    async run({ env, by, query: { contact_id: contactId, crm_id: crmId, pending, cursor = "", limit } }) {
      const filter = { contactId, crmId, pending: pending === undefined ? undefined : pending === "true" };
      const found = await listStandings(env.DB, by.tenantId, filter, cursor, limit + 1);
      return pages.byName(found, limit, ({ contactId }) => contactId, linkView);
    },
  }),
];

function linkView({ contactId, crmId, syncedRevision, pending, updatedAt, state, revision, error }: Standing): z.infer<typeof LinkSchema> {
  return {
    contact_id: contactId,
    crm_id: crmId,
    state,
    revision,
    synced_revision: syncedRevision,
    pending: pending === 1,
    error,
    updated_at: times.isoOrNull(updatedAt),
  };
}
