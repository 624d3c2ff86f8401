import { defineCommand, defineEvent, digest } from "millrace";
import * as z from "zod";
import { keyPart } from "./key-part.ts";
import { brandEvents, crmCommands } from "./queues.ts";

const contactId = z.string().min(1).max(200);
const crmId = z.string().min(1).max(64);

/** Bring one contact, as it is by then, to the CRM. `occasion` says what for, such as its revision: the same one is the same work. */
export const ContactSync = defineCommand({
  type: "contact.sync",
  payload: z.object({ contact_id: contactId, occasion: z.string().min(1).max(250) }),
  key: ({ contact_id, occasion }) => `${digest(contact_id)}/${occasion}`,
  subject: ({ contact_id }) => contact_id,
  queue: crmCommands,
});

/** Bring every contact that changed since it was last synced to the CRM; or hold all of them against it. `sync_id` names the occasion. */
export const ContactsSync = defineCommand({
  type: "contacts.sync",
  payload: z.object({
    sync_id: z
      .string()
      .min(1)
      .max(64)
      .regex(/^[A-Za-z0-9_-]+$/, "may hold letters, digits, - and _"),
    scope: z.enum(["changed", "all"]).default("changed"),
  }),
  key: ({ sync_id }) => sync_id,
  subject: ({ sync_id }) => sync_id,
  queue: crmCommands,
});

/** The CRM says that something happened to a contact there: look at it, and take over what is new. */
export const CrmContactChanged = defineCommand({
  type: "crm.contact_changed",
  payload: z.object({
    crm_id: crmId,
    /** Names the notice. */
    event_id: z.string().min(1).max(100),
    occurred_at: z.iso.datetime(),
    /** Records that were merged into this one. */
    merged: z.array(crmId).max(100).default([]),
  }),
  key: ({ event_id }) => event_id,
  subject: ({ crm_id }) => crm_id,
  queue: crmCommands,
  // Whoever could name a record that the CRM has not spoken of could take any of them.
  door: { scope: null, route: "POST /crm/hubspot/webhooks/{tenant}" },
});

/** The contacts go to another account of the CRM from now on, the deployment's: what is known of the one before is forgotten. */
export const CrmAdoptAccount = defineCommand({
  type: "crm.adopt_account",
  payload: z.object({ account: z.string().min(1).max(64), occasion: z.string().min(1).max(150) }),
  key: ({ account, occasion }) => `${account}/${keyPart(occasion)}`,
  subject: ({ account }) => account,
  queue: crmCommands,
  door: { scope: "operate", route: "POST /v1/commands" },
});

/**
 * Forget a person: what identifies them leaves every place that it is kept in. Its route writes down who is meant, because a command stays
 * longer than that may; here they are a pseudonym already. `request` names the occasion: under another one it is looked for once more.
 */
export const ContactForget = defineCommand({
  type: "contact.forget",
  payload: z.object({ person: z.string().regex(/^forgotten-[0-9a-f]{32}$/), request: z.string().min(1).max(100).default("first") }),
  key: ({ person, request }) => `${person}/${request}`,
  subject: ({ person }) => person,
  queue: crmCommands,
  door: { scope: null, route: "POST /v1/contacts/forget" },
});

/** A contact is in the CRM as it was in this revision. */
export const ContactSynced = defineEvent({
  type: "contact.synced",
  payload: z.object({ contact_id: contactId, crm_id: z.string().min(1), revision: z.int().min(1) }),
  subject: ({ contact_id }) => contact_id,
  queue: brandEvents,
});
