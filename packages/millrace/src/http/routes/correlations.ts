import * as z from "zod";
import { Collapsed, JobSummary, readJob } from "../../inspect/correlation/job.ts";
import { JobNode } from "../../inspect/correlation/node.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { pageOf, pageQuery } from "../paging.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";

const show = createRoute({
  ...at("get", "/v1/correlations/{id}", "getCorrelation", "correlations show"),
  summary: "Get a job: all its instances and messages",
  description: [
    "Returns a page of the graph: instances in order of acceptance, each with the messages that its steps emitted, and dead letters.",
    "The `cause` of a node is its edge and may be on an earlier page. For an instance with many messages, 20 are listed,",
    "and `collapsed` counts the others by type; GET /v1/instances/{id}/events lists them.",
    "Nodes removed by retention are `gone` as a cause and `pruned` as a result of a message.",
  ].join(" "),
  ...needs("read"),
  request: { params: z.object({ id: z.string() }), query: z.strictObject(pageQuery) },
  responses: {
    200: answers(
      "A page of the job",
      pageOf(JobNode).extend({
        id: z.string(),
        summary: JobSummary.nullable().meta({ description: "Only on the first page." }),
        collapsed: z.array(Collapsed),
        elsewhere: z
          .array(z.object({ kind: z.string(), url: z.string() }))
          .meta({ description: "Lists of the app with more items of the job." }),
      }),
    ),
    ...problems("unauthorized", "forbidden", "correlation_not_found", "invalid_payload"),
  },
});

/** Lists of the app with members of a job. Each entry has the kind of the members and the path of the list. */
export type Elsewhere = (job: string) => { kind: string; url: string }[];

export function correlations({ workflows }: Catalog, elsewhere: Elsewhere) {
  return new Routes<HttpEnv>().openapi(show, async (context) => {
    const { id } = context.req.valid("param");
    const { summary, nodes, collapsed, next } = await readJob(context.env, context.var.caller, id, {
      ...context.req.valid("query"),
      workflows,
    });
    return context.json({ id, summary, items: nodes, collapsed, elsewhere: elsewhere(id), next_cursor: next }, 200);
  });
}
