import { defineConsumer } from "millrace";
import { crmCommands } from "../messages/queues.ts";
import { adoptCrmAccount } from "../workflows/adopt-crm-account.ts";
import { forgetContact } from "../workflows/forget-contact.ts";
import { syncContact } from "../workflows/sync-contact.ts";
import { syncContacts } from "../workflows/sync-contacts.ts";
import { takeCrmChange } from "../workflows/take-crm-change.ts";

export const syncing = defineConsumer({
  queue: crmCommands,
  starts: [syncContact, syncContacts, takeCrmChange, adoptCrmAccount, forgetContact],
});
