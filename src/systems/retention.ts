import type { Retention } from "millrace/worker";
import { batchRetention } from "./batches/retention.ts";
import { contentRetention } from "./content/retention.ts";
import { crmRetention } from "./crm/retention.ts";
import { ledgerOf } from "./facts/ledger/ledgers.ts";
import { factRetention } from "./facts/retention.ts";
import { webhookRetention } from "./webhooks/retention.ts";

/** How long the app's own rows are kept. The engine's list is packages/millrace/src/keeper/retention.ts. */
export const retention: readonly Retention[] = [
  factRetention(ledgerOf),
  ...webhookRetention,
  ...batchRetention,
  ...contentRetention,
  ...crmRetention,
];
