import { OpenAPIHono } from "@hono/zod-openapi";
import type { Context, MiddlewareHandler } from "hono";
import { issuesOf } from "millrace";
import type { Catalog } from "millrace/worker";
import { approvals } from "./approvals.ts";
import { articles } from "./articles.ts";
import { audit } from "./audit.ts";
import { authenticate } from "./auth.ts";
import { batchReports } from "./batch-reports.ts";
import { batches } from "./batches.ts";
import { drain } from "./body.ts";
import { brands } from "./brands.ts";
import { budgets } from "./budgets.ts";
import { commands } from "./commands.ts";
import { contacts } from "./contacts.ts";
import { crmHooks } from "./crm-hooks.ts";
import { crmLinks } from "./crm-links.ts";
import { crmSyncs } from "./crm-syncs.ts";
import { deadLetters } from "./dead-letters.ts";
import { effects } from "./effects.ts";
import { embedded } from "./embedded.ts";
import type { ApiEnv } from "./env.ts";
import { events } from "./events.ts";
import { facts } from "./facts.ts";
import { health } from "./health.ts";
import { instances } from "./instances.ts";
import { invalidRequest } from "./invalid-request.ts";
import { refuseKeys } from "./keyless.ts";
import { landing } from "./landing.ts";
import { ledgers } from "./ledgers.ts";
import { readable } from "./media-type.ts";
import { openApi } from "./openapi.ts";
import { pages } from "./pages.ts";
import { answerProblem, HttpRefusal } from "./problem.ts";
import { problemsPage } from "./problems-page.ts";
import { projections } from "./projections.ts";
import { qualificationRules } from "./qualification-rules.ts";
import { limitStrangers } from "./request-limits.ts";
import { retry } from "./retry.ts";
import { schedules } from "./schedules.ts";
import { statedEvents } from "./state-events.ts";
import { steps } from "./steps.ts";
import { syndication } from "./syndication.ts";
import { tenant } from "./tenant.ts";
import { textUsages } from "./text-usage.ts";
import { tokens } from "./tokens.ts";
import { undo } from "./undo.ts";
import { refuseParameters } from "./unknown-parameters.ts";
import { webhookDeliveries } from "./webhook-deliveries.ts";
import { webhookRedeliveries } from "./webhook-redeliveries.ts";
import { webhookSecrets } from "./webhook-secrets.ts";
import { webhooks } from "./webhooks.ts";

/** The HTTP API of a deployment: every route, and what holds for all of them. */
export function createApi(catalog: Catalog): OpenAPIHono<ApiEnv> {
  const api = new OpenAPIHono<ApiEnv>({
    defaultHook: (result) => {
      if (!result.success) throw invalidRequest(issuesOf(result.error));
    },
  });
  api.onError(answerProblem);
  api.notFound((context) => answerProblem(refusalOf(api, context), context));
  api.use(nosniff, drained, limitStrangers, readable);
  api.use("/v1/*", noStore, authenticate);
  api.use(refuseKeys(api));
  api.use("/v1/*", refuseParameters(api));

  const asked = [commands(catalog), statedEvents(catalog)];
  const nouns = [instances(), steps(), effects(), events(), retry(), deadLetters(catalog), audit(), tokens()];
  const people = [approvals(), undo(), schedules(catalog)];
  const platform = [facts(), ledgers(), projections(catalog), batches(catalog), batchReports()];
  const derived = [qualificationRules(), budgets(catalog), contacts(catalog), tenant(catalog)];
  const hooks = [webhooks(catalog), webhookSecrets(), webhookDeliveries(catalog), webhookRedeliveries(catalog)];
  const growth = [brands(catalog), articles(catalog), textUsages(), syndication(), crmSyncs(), crmLinks(), crmHooks(catalog)];
  for (const routes of [
    ...asked,
    ...nouns,
    ...people,
    ...platform,
    ...derived,
    ...hooks,
    ...growth,
    health(),
    landing(catalog),
    problemsPage(),
    pages(),
    embedded(),
  ])
    api.route("/", routes);
  api.route("/", openApi(api));
  return api;
}

const nosniff: MiddlewareHandler<ApiEnv> = async (context, next) => {
  await next();
  context.header("x-content-type-options", "nosniff");
};

/** What a refusal left unread is read all the same, within bounds: who is still sending would not hear the answer. */
const drained: MiddlewareHandler<ApiEnv> = async (context, next) => {
  await next();
  const { body, bodyUsed } = context.req.raw;
  if (context.res.status >= 400 && body && !bodyUsed && !body.locked) await drain(body.getReader());
};

const noStore: MiddlewareHandler<ApiEnv> = async (context, next) => {
  await next();
  context.header("cache-control", "no-store");
};

/** Why nothing answered: no route has this path, or none takes this method on it. */
function refusalOf(api: OpenAPIHono<ApiEnv>, { req: { method, path } }: Context<ApiEnv>): HttpRefusal {
  const methods = ["GET", "POST", "PUT", "DELETE"].filter((method) =>
    api.router.match(method, path)[0].some(([[, route]]) => route.method !== "ALL"),
  );
  if (methods.length === 0) return new HttpRefusal("route_not_found", "There is no such route. GET /openapi.json lists them.");
  const allow = methods.flatMap((method) => (method === "GET" ? ["GET", "HEAD"] : [method])).join(", ");
  return new HttpRefusal("method_not_allowed", `This route takes ${allow}, not ${method}.`, { allow });
}
