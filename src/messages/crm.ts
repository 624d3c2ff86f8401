import * as z from "zod";
import { defineCommand, defineEvent, digest } from "../engine/index.ts";
import { brandEvents, crmCommands } from "./queues.ts";

const contactId = z.string().min(1).max(200);

/** Bring one contact, as it is now, to the CRM. `revision` names the state that is meant: the same one is the same work. */
export const ContactSync = defineCommand({
  type: "contact.sync",
  payload: z.object({ contact_id: contactId, revision: z.int().min(1) }),
  key: ({ contact_id, revision }) => `${digest(contact_id)}/${revision}`,
  subject: ({ contact_id }) => contact_id,
  queue: crmCommands,
});

/** Bring every contact that changed since it was last synced to the CRM; or all of them. `sync_id` names the occasion. */
export const ContactsSync = defineCommand({
  type: "contacts.sync",
  payload: z.object({ sync_id: z.string().min(1).max(64), scope: z.enum(["changed", "all"]).default("changed") }),
  key: ({ sync_id }) => sync_id,
  subject: ({ sync_id }) => sync_id,
  queue: crmCommands,
});

/** The CRM says that it changed a contact: take over what is new in it. */
export const CrmContactChanged = defineCommand({
  type: "crm.contact_changed",
  payload: z.object({ crm_id: z.string().min(1).max(64), event_id: z.string().min(1).max(100) }),
  key: ({ event_id }) => event_id,
  subject: ({ crm_id }) => crm_id,
  queue: crmCommands,
});

/** A contact is in the CRM as it was in this revision. */
export const ContactSynced = defineEvent({
  type: "contact.synced",
  payload: z.object({ contact_id: contactId, crm_id: z.string().min(1), revision: z.int().min(1) }),
  subject: ({ contact_id }) => contact_id,
  queue: brandEvents,
});
