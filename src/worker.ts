import { armKeeper, bulkAction, dispatch, entrypoint, keeper, keeperOf } from "millrace/worker";
import { createApi } from "./api/app.ts";
import { app } from "./catalog.ts";
import { brandAgent } from "./systems/brand/brand-agent.ts";
import { checks } from "./systems/checks.ts";
import { gauges } from "./systems/gauges.ts";
import { retention } from "./systems/retention.ts";
import { adoptCrmAccount } from "./workflows/adopt-crm-account.ts";
import { auditBrand } from "./workflows/audit-brand.ts";
import { deleteTenant } from "./workflows/delete-tenant.ts";
import { deliverWebhook } from "./workflows/deliver-webhook.ts";
import { exportRows } from "./workflows/export-rows.ts";
import { forgetContact } from "./workflows/forget-contact.ts";
import { generateArticle } from "./workflows/generate-article.ts";
import { importRows } from "./workflows/import-rows.ts";
import { planCycle } from "./workflows/plan-cycle.ts";
import { postToSocial } from "./workflows/post-to-social.ts";
import { publishArticle } from "./workflows/publish-article.ts";
import { publishToSite } from "./workflows/publish-to-site.ts";
import { rebuildProjection } from "./workflows/rebuild-projection.ts";
import { reconcileRows } from "./workflows/reconcile-rows.ts";
import { researchKeyword } from "./workflows/research-keyword.ts";
import { sendAlert } from "./workflows/send-alert.ts";
import { sendCallback } from "./workflows/send-callback.ts";
import { syncContact } from "./workflows/sync-contact.ts";
import { syncContacts } from "./workflows/sync-contacts.ts";
import { takeCrmChange } from "./workflows/take-crm-change.ts";
import { unpublishArticle } from "./workflows/unpublish-article.ts";

export { Counter } from "millrace/counters";
export { RateLimit } from "millrace/limits";
export { Lock } from "millrace/locks";
export { Recorder } from "millrace/worker";
export { EmbeddedCrm, EmbeddedCrmStore } from "./embedded/crm.ts";
export { EmbeddedLedger } from "./embedded/ledger.ts";
export { EmbeddedUpstreams } from "./embedded/upstreams.ts";
export { Budget } from "./systems/facts/derived/budget.ts";
export { ContactBook } from "./systems/facts/derived/contact-book.ts";
export { Ledger } from "./systems/facts/ledger/ledger.ts";

export class Keeper extends keeper({ catalog: app, retention, checks, gauges }) {}
export class BrandAgent extends brandAgent(app) {}

export class ResearchKeyword extends entrypoint(researchKeyword, app) {}
export class GenerateArticle extends entrypoint(generateArticle, app) {}
export class PublishArticle extends entrypoint(publishArticle, app) {}
export class PublishToSite extends entrypoint(publishToSite, app) {}
export class UnpublishArticle extends entrypoint(unpublishArticle, app) {}
export class PostToSocial extends entrypoint(postToSocial, app) {}
export class PlanCycle extends entrypoint(planCycle, app) {}
export class AuditBrand extends entrypoint(auditBrand, app) {}
export class SyncContact extends entrypoint(syncContact, app) {}
export class SyncContacts extends entrypoint(syncContacts, app) {}
export class TakeCrmChange extends entrypoint(takeCrmChange, app) {}
export class AdoptCrmAccount extends entrypoint(adoptCrmAccount, app) {}
export class DeleteTenant extends entrypoint(deleteTenant, app) {}
export class ForgetContact extends entrypoint(forgetContact, app) {}
export class DeliverWebhook extends entrypoint(deliverWebhook, app) {}
export class ImportRows extends entrypoint(importRows, app) {}
export class ExportRows extends entrypoint(exportRows, app) {}
export class ReconcileRows extends entrypoint(reconcileRows, app) {}
export class RebuildProjection extends entrypoint(rebuildProjection, app) {}
export class SendAlert extends entrypoint(sendAlert, app) {}
export class BulkAction extends entrypoint(bulkAction, app) {}
export class SendCallback extends entrypoint(sendCallback, app) {}

const api = createApi(app);
const consume = dispatch(app);

export default {
  fetch(request, env, ctx) {
    armKeeper(env, ctx);
    return api.fetch(request, env, ctx);
  },
  queue(batch, env, ctx) {
    armKeeper(env, ctx);
    return consume(batch, env);
  },
  async scheduled(_controller, env, ctx) {
    armKeeper(env, ctx);
    await keeperOf(env).startDue();
  },
} satisfies ExportedHandler<Env>;
