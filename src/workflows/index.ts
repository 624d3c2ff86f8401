// Every workflow of this deployment. The catalog knows what is named here; worker.ts exports a class for each.
export { adoptCrmAccount } from "./adopt-crm-account.ts";
export { auditBrand } from "./audit-brand.ts";
export { deliverWebhook } from "./deliver-webhook.ts";
export { exportRows } from "./export-rows.ts";
export { forgetContact } from "./forget-contact.ts";
export { generateArticle } from "./generate-article.ts";
export { importRows } from "./import-rows.ts";
export { planCycle } from "./plan-cycle.ts";
export { postToSocial } from "./post-to-social.ts";
export { publishArticle } from "./publish-article.ts";
export { rebuildProjection } from "./rebuild-projection.ts";
export { reconcileRows } from "./reconcile-rows.ts";
export { researchKeyword } from "./research-keyword.ts";
export { syncContact } from "./sync-contact.ts";
export { syncContacts } from "./sync-contacts.ts";
export { takeCrmChange } from "./take-crm-change.ts";
export { unpublishArticle } from "./unpublish-article.ts";
