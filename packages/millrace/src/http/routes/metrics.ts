import * as z from "zod";
import { metricsOf } from "../../keeper/client.ts";
import { exposition, MEDIA_TYPES } from "../../observe/metrics/exposition.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { problems } from "../problem.ts";
import { createRoute, Routes } from "../router.ts";

export const METRICS_PATH = "/metrics";

const scrape = createRoute({
  method: "get",
  path: METRICS_PATH,
  operationId: "getMetrics",
  command: "metrics show",
  summary: "Get metrics of the whole deployment, for Prometheus",
  description:
    "The Prometheus text format 0.0.4, or OpenMetrics 1.0 if the request accepts it. The values are at most about ten seconds old.",
  ...needs("observe"),
  responses: {
    200: {
      description: "All series. No label names a tenant",
      content: { "text/plain": { schema: z.string() }, "application/openmetrics-text": { schema: z.string() } },
    },
    ...problems("unauthorized", "forbidden"),
  },
});

export function metrics() {
  return new Routes<HttpEnv>().openapi(scrape, async (context) => {
    const { ever, samples } = await metricsOf(context.env);
    const format = (context.req.header("accept") ?? "").includes("application/openmetrics-text") ? "openmetrics" : "text";
    context.header("content-type", MEDIA_TYPES[format]);
    return context.body(exposition(ever, samples, format), 200) as never;
  });
}
