import { armKeeper, dispatch, entrypoint, keeper, keeperOf } from "millrace/worker";
import { createApi } from "./api/app.ts";
import { app } from "./catalog.ts";
import { brandAgent } from "./objects/brand-agent.ts";
import { retention } from "./retention.ts";
import * as workflows from "./workflows/index.ts";

export { RateLimit, Recorder } from "millrace/worker";
export { Budget } from "./objects/budget.ts";
export { ContactBook } from "./objects/contact-book.ts";
export { Ledger } from "./objects/ledger.ts";
export { EmbeddedCrm, EmbeddedCrmStore } from "./providers/embedded/crm.ts";
export { EmbeddedLedger } from "./providers/embedded/ledger.ts";
export { EmbeddedUpstreams } from "./providers/embedded/upstreams.ts";

export class Keeper extends keeper({ catalog: app, retention }) {}
export class BrandAgent extends brandAgent(app) {}

export class ResearchKeyword extends entrypoint(workflows.researchKeyword) {}
export class GenerateArticle extends entrypoint(workflows.generateArticle) {}
export class PublishArticle extends entrypoint(workflows.publishArticle) {}
export class UnpublishArticle extends entrypoint(workflows.unpublishArticle) {}
export class PostToSocial extends entrypoint(workflows.postToSocial) {}
export class PlanCycle extends entrypoint(workflows.planCycle) {}
export class AuditBrand extends entrypoint(workflows.auditBrand) {}
export class SyncContact extends entrypoint(workflows.syncContact) {}
export class SyncContacts extends entrypoint(workflows.syncContacts) {}
export class TakeCrmChange extends entrypoint(workflows.takeCrmChange) {}
export class AdoptCrmAccount extends entrypoint(workflows.adoptCrmAccount) {}
export class DeleteTenant extends entrypoint(workflows.deleteTenant) {}
export class ForgetContact extends entrypoint(workflows.forgetContact) {}
export class DeliverWebhook extends entrypoint(workflows.deliverWebhook) {}
export class ImportRows extends entrypoint(workflows.importRows) {}
export class ExportRows extends entrypoint(workflows.exportRows) {}
export class ReconcileRows extends entrypoint(workflows.reconcileRows) {}
export class RebuildProjection extends entrypoint(workflows.rebuildProjection) {}

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
