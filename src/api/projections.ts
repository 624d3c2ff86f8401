import type { Context } from "hono";
import { type Accepted, enqueueOne, texts } from "millrace";
import { acceptance, answers, bodies, createRoute, needs, Routes, times } from "millrace/http";
import { instances, statuses } from "millrace/operate";
import type { Catalog } from "millrace/worker";
import * as z from "zod";
import { ProjectionRebuild } from "../messages/batches.ts";
import { projectionState } from "../systems/facts/lag.ts";
import type { ApiEnv } from "./env.ts";
import { problems } from "./problems.ts";

const ms = z.int().min(0);
const ProjectionSchema = z
  .object({
    name: z.literal("facts"),
    rows: z.int(),
    ledgers: z.int(),
    more: z.boolean().meta({ description: "True if more rows or facts exist than are counted (100,000 of each)." }),
    lag_ms: z
      .object({ rows: z.int().meta({ description: "Number of measured rows." }), p50: ms, p95: ms, max: ms })
      .nullable()
      .meta({
        description:
          "The lag from a ledger's clock to the database's, over the newest 1,000 rows recorded within the last hour and since the last rebuild.",
      }),
    newest_projected_at: times.timestamp.nullable(),
    rebuild: z
      .object({ instance_id: z.string(), status: z.string(), under_way: z.boolean(), asked_at: times.timestamp })
      .nullable()
      .meta({ description: "The last one." }),
  })
  .meta({ id: "Projection" });

const rebuildSchema = z.strictObject({
  request: texts.chosenName(100).meta({ description: "The name of the request: requests with the same name are one rebuild." }),
});

const list = createRoute({
  method: "get",
  path: "/v1/projections",
  operationId: "listProjections",
  command: "projections list",
  summary: "List projections with their lag",
  description: "Returns the progress of each projection and its lag behind its ledgers.",
  ...needs("read"),
  responses: {
    200: answers("The projections", z.object({ items: z.array(ProjectionSchema) })),
    ...problems("unauthorized", "forbidden"),
  },
});

const asked = {
  ...needs("operate"),
  request: { body: bodies.json(rebuildSchema) },
  responses: {
    202: acceptance.answer(z.object(acceptance.shape).meta({ id: "RebuildAccepted" })),
    ...problems("invalid_json", "unauthorized", "forbidden", "payload_too_large", "unsupported_media_type", "invalid_payload"),
  },
} as const;

const rebuild = createRoute({
  method: "post",
  path: "/v1/projections/facts/rebuild",
  operationId: "rebuildFacts",
  command: "projections rebuild-facts",
  summary: "Rebuild the projection of facts",
  description:
    "The request does the same as the command `projection.rebuild`. Rows are repaired in place from the ledgers, so concurrent reads miss none. GET /v1/instances/{id} shows the progress.",
  ...asked,
});

const rebuildDerived = createRoute({
  method: "post",
  path: "/v1/projections/derived/rebuild",
  operationId: "rebuildDerived",
  command: "projections rebuild-derived",
  summary: "Rebuild the results derived from facts",
  description:
    "The request does the same as the command `projection.rebuild` with `derived`: every ledger sends its facts again for charges, payouts, budgets, merged contacts and webhooks. Existing results are not repeated; results lost with a restored backup or object are created again.",
  ...asked,
});

export function projections(catalog: Catalog) {
  return new Routes<ApiEnv>()
    .openapi(list, async (context) => {
      const { env, var: bound } = context;
      const found = await instances.list(env, bound.caller, {
        workflow: catalog.performer(ProjectionRebuild.type).name,
        subject: "facts",
        limit: 1,
      });
      const [last] = found.items;
      const { lag, newestProjectedAt, ...state } = await projectionState(
        env.DB,
        bound.caller.tenantId,
        last && Date.parse(last.accepted_at),
      );
      const item = {
        name: "facts" as const,
        ...state,
        lag_ms: lag,
        newest_projected_at: times.isoOrNull(newestProjectedAt),
        rebuild: last
          ? { instance_id: last.id, status: last.status, under_way: statuses.underWay.has(last.status), asked_at: last.accepted_at }
          : null,
      };
      return context.json({ items: [item] }, 200);
    })
    .openapi(rebuild, async (context) => accepted(context, await ask(context, catalog, "facts")))
    .openapi(rebuildDerived, async (context) => accepted(context, await ask(context, catalog, "derived")));
}

async function ask(context: Context<ApiEnv>, catalog: Catalog, projection: "facts" | "derived"): Promise<Accepted> {
  const { request } = await bodies.read(context.req, rebuildSchema);
  const { tenantId, actor } = context.var.caller;
  const command = { command: ProjectionRebuild, payload: { projection, request } };
  return enqueueOne(context.env, catalog, { tenantId, source: `api/${actor}` }, command);
}

function accepted(context: Context<ApiEnv>, answer: Accepted) {
  return context.json(acceptance.view(answer), 202, acceptance.headers(answer));
}
