import { enqueueOne, texts } from "millrace";
import { acceptance, times } from "millrace/http";
import { instances, statuses } from "millrace/operate";
import * as z from "zod";
import { ProjectionRebuild } from "../messages/batches.ts";
import { projectionState } from "../systems/facts/lag.ts";
import { operation } from "./operation.ts";

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

/** The command `projection.rebuild` as a route. */
const rebuild = (projection: "facts" | "derived", id: string, summary: string, description: string) =>
  operation("post", `/v1/projections/${projection}/rebuild`, id, `projections rebuild-${projection}`, {
    summary,
    description,
    body: rebuildSchema,
    answer: ["Accepted", RebuildAcceptedSchema],
    status: 202,
    location: "The instance.",
    repeats: true,
    async run({ env, by: { tenantId, actor }, catalog, body: { request }, context }) {
      const command = { command: ProjectionRebuild, payload: { projection, request } };
      return acceptance.answer(context, await enqueueOne(env, catalog, { tenantId, source: `api/${actor}` }, command));
    },
  });
const RebuildAcceptedSchema = z.object(acceptance.shape).meta({ id: "RebuildAccepted" });

export const projections = [
  operation("get", "/v1/projections", "listProjections", "projections list", {
    summary: "List projections with their lag",
    description: "Returns the progress of each projection and its lag behind its ledgers.",
    answer: ["The projections", z.object({ items: z.array(ProjectionSchema) })],
    async run({ env, by, catalog }) {
      const workflow = catalog.performer(ProjectionRebuild.type).name;
      const [last] = (await instances.list(env, by, { workflow, subject: "facts", limit: 1 })).items;
      const since = last && Date.parse(last.accepted_at);
      const { lag, newestProjectedAt, ...state } = await projectionState(env.DB, by.tenantId, since);
      const item = {
        name: "facts" as const,
        ...state,
        lag_ms: lag,
        newest_projected_at: times.isoOrNull(newestProjectedAt),
        rebuild: last
          ? { instance_id: last.id, status: last.status, under_way: statuses.underWay.has(last.status), asked_at: last.accepted_at }
          : null,
      };
      return { items: [item] };
    },
  }),
  rebuild(
    "facts",
    "rebuildFacts",
    "Rebuild the projection of facts",
    "The request does the same as the command `projection.rebuild`. Rows are repaired in place from the ledgers, so concurrent reads miss none. GET /v1/instances/{id} shows the progress.",
  ),
  rebuild(
    "derived",
    "rebuildDerived",
    "Rebuild the results derived from facts",
    "The request does the same as the command `projection.rebuild` with `derived`: every ledger sends its facts again for charges, payouts, budgets, merged contacts and webhooks. Existing results are not repeated; results lost with a restored backup or object are created again.",
  ),
];
