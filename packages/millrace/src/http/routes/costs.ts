import { costsOfDeployment } from "../../inspect/costs.ts";
import { Costs } from "../../observe/cost/workflow-cost.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";

const list = createRoute({
  ...at("get", "/v1/costs", "getCosts", "costs show"),
  summary: "Get the cost of each workflow and the monthly cost of the deployment",
  description: "Covers all tenants, by list prices. Without CPU time, R2, the storage of app objects, and the charges of upstreams.",
  ...needs("observe"),
  responses: { 200: answers("The costs", Costs), ...problems("unauthorized", "forbidden") },
});

export function costs(catalog: Catalog) {
  return new Routes<HttpEnv>().openapi(list, async (context) => context.json(await costsOfDeployment(context.env, catalog), 200));
}
