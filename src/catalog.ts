import { routes } from "./consumers/routes.ts";
import { skippedLetterFact } from "./derive/skipped-letter.ts";
import { type Catalog, catalog } from "./engine/index.ts";
import { confirmFacts } from "./objects/ledgers.ts";
import { auditBrand } from "./workflows/audit-brand.ts";
import { deliverWebhook } from "./workflows/deliver-webhook.ts";
import { exportRows } from "./workflows/export-rows.ts";
import { generateArticle } from "./workflows/generate-article.ts";
import { importRows } from "./workflows/import-rows.ts";
import { planCycle } from "./workflows/plan-cycle.ts";
import { postToSocial } from "./workflows/post-to-social.ts";
import { publishArticle } from "./workflows/publish-article.ts";
import { rebuildProjection } from "./workflows/rebuild-projection.ts";
import { reconcileRows } from "./workflows/reconcile-rows.ts";
import { researchKeyword } from "./workflows/research-keyword.ts";
import { syncContact } from "./workflows/sync-contact.ts";
import { syncContacts } from "./workflows/sync-contacts.ts";
import { takeCrmChange } from "./workflows/take-crm-change.ts";

/** Everything this deployment knows: its workflows and what follows from what. A new chain adds its lines here and its exports in worker.ts. */
export const app: Catalog = catalog({
  workflows: [
    researchKeyword,
    generateArticle,
    publishArticle,
    postToSocial,
    planCycle,
    auditBrand,
    syncContact,
    syncContacts,
    takeCrmChange,
    deliverWebhook,
    importRows,
    exportRows,
    reconcileRows,
    rebuildProjection,
  ],
  routes,
  onConfirmed: confirmFacts,
  onSkipped: skippedLetterFact,
});
