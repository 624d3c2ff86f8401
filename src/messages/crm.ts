import { defineCommand, defineEvent, ids } from "millrace";
import * as z from "zod";
import { keyPart } from "./key-part.ts";
import { brandEvents, crmCommands } from "./queues.ts";

const contactId = z.string().min(1).max(200);
const crmId = z.string().min(1).max(64);

/**
 * The command to send the present data of one contact to the CRM. `occasion` names the reason for the command, such as the contact's
 * revision. Commands for a contact with the same `occasion` start one sync.
 */
export const ContactSync = defineCommand({
  type: "contact.sync",
  payload: z.object({ contact_id: contactId, occasion: z.string().min(1).max(250) }),
  key: ({ contact_id, occasion }) => `${ids.digest(contact_id)}/${occasion}`,
  subject: ({ contact_id }) => contact_id,
  queue: crmCommands,
});

/**
 * The command to send to the CRM every contact that changed since its last sync, or to compare all contacts with the CRM. `sync_id` is the
 * name of this sync.
 */
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

/** The command to read a contact that the CRM reported as changed, and to copy the changes from the CRM to the app's contact. */
export const CrmContactChanged = defineCommand({
  type: "crm.contact_changed",
  payload: z.object({
    crm_id: crmId,
    /** The id of the CRM's webhook event. */
    event_id: z.string().min(1).max(100),
    occurred_at: z.iso.datetime(),
    /** The ids of CRM records that were merged into this record. */
    merged: z.array(crmId).max(100).default([]),
  }),
  key: ({ event_id }) => event_id,
  subject: ({ crm_id }) => crm_id,
  queue: crmCommands,
  // Only the webhook route sends this command, because otherwise any caller could claim any record of the CRM.
  access: { scope: null, route: "POST /crm/hubspot/webhooks/{tenant}" },
});

/** The command to link the contacts to the CRM account of this deployment. The stored data about the previous CRM account is deleted. */
export const CrmAdoptAccount = defineCommand({
  type: "crm.adopt_account",
  payload: z.object({ account: z.string().min(1).max(64), occasion: z.string().min(1).max(150) }),
  key: ({ account, occasion }) => `${account}/${keyPart(occasion)}`,
  subject: ({ account }) => account,
  queue: crmCommands,
  access: { scope: "operate", route: "POST /v1/commands" },
});

/**
 * The command to remove the identifiers of a person from all stored data. The command's route stores the identifiers separately, because a
 * command is kept longer than the identifiers may be. The command contains only the person's pseudonym. `request` names the request. A
 * command with another name starts another search.
 */
export const ContactForget = defineCommand({
  type: "contact.forget",
  payload: z.object({ person: z.string().regex(/^forgotten-[0-9a-f]{32}$/), request: z.string().min(1).max(100).default("first") }),
  key: ({ person, request }) => `${person}/${request}`,
  subject: ({ person }) => person,
  queue: crmCommands,
  access: { scope: null, route: "POST /v1/contacts/forget" },
});

/** The event that the CRM has stored this revision of a contact. */
export const ContactSynced = defineEvent({
  type: "contact.synced",
  payload: z.object({ contact_id: contactId, crm_id: z.string().min(1), revision: z.int().min(1) }),
  subject: ({ contact_id }) => contact_id,
  queue: brandEvents,
});
