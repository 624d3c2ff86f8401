import * as z from "zod";
import { costsOfDeployment } from "../../inspect/costs.ts";
import { PLAN_USD, PRICES_DATE, type Usage } from "../../observe/cost/prices.ts";
import type { WorkflowCost } from "../../observe/cost/workflow-cost.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { needs } from "../auth.ts";
import { inSnakeCase } from "../cost.ts";
import type { HttpEnv } from "../env.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { usdView } from "../usd.ts";

const AmountsSchema = z.record(z.string(), z.number());

const WorkflowCostSchema = z
  .object({
    workflow: z.string(),
    basis: z.enum(["runs", "code", "nothing"]).meta({
      description:
        "`runs`: from its newest runs. `code`: no run was observed; a lower bound from the steps in the code, each once. `nothing`: the code names no step.",
    }),
    runs_seen: z.int().meta({ description: "The number of newest runs used, at most 25." }),
    runs: z
      .object({ hour: z.number(), day: z.number(), week: z.number() })
      .meta({ description: "Runs that ended in the last hour, day and week. Runs of the last minute may be missing." }),
    steps: z.object({ typical: z.number(), most: z.number() }).nullable().meta({ description: "The cost of one run, as observed." }),
    messages: z.number(),
    per_run: AmountsSchema.meta({ description: "The average usage of a run, including the rows that its removal writes." }),
    usd_per_thousand_runs: z.number(),
    runs_per_month: z.number().meta({ description: "30 times the runs of the last day." }),
    usd_per_month: z.number().meta({ description: "List prices, without the included usage of the plan." }),
    usd_by: AmountsSchema.meta({ description: "The monthly cost in dollars, by billed item." }),
  })
  .meta({ id: "WorkflowCost" });

const CostsSchema = z
  .object({
    prices_of: z.string().meta({ description: "The date of the list prices." }),
    workflows: z.array(WorkflowCostSchema),
    fixed: AmountsSchema.meta({
      description:
        "The monthly usage of the deployment without any run: an upper bound of object time, returned deliveries at the last day's rate, and the stored gigabytes.",
    }),
    month: z
      .object({
        usd: z.number().meta({ description: "The monthly cost, with the price of the plan and after the plan's included usage." }),
        plan_usd: z.number(),
        usd_by: AmountsSchema.meta({ description: "Dollars beyond the quotas of the plan, by billed item." }),
        used: z.array(z.object({ of: z.string(), used: z.number(), included: z.number(), usd: z.number() })),
      })
      .meta({ description: "The whole deployment, if its account runs nothing else." }),
  })
  .meta({ id: "Costs" });

const list = createRoute({
  method: "get",
  path: "/v1/costs",
  operationId: "getCosts",
  command: "costs show",
  summary: "Get the cost of each workflow and the monthly cost of the deployment",
  description: "Covers all tenants, by list prices. Without CPU time, R2, the storage of app objects, and the charges of upstreams.",
  ...needs("observe"),
  responses: { 200: answers("The costs", CostsSchema), ...problems("unauthorized", "forbidden") },
});

export function costs(catalog: Catalog) {
  return new Routes<HttpEnv>().openapi(list, async (context) => {
    const { workflows, fixed, bill } = await costsOfDeployment(context.env, catalog);
    return context.json(
      {
        prices_of: PRICES_DATE,
        workflows: workflows.map(workflowView),
        fixed: amounts(fixed),
        month: {
          usd: usdView(bill.usd),
          plan_usd: PLAN_USD,
          usd_by: amounts(bill.beyond, usdView),
          used: bill.lines.map(({ priced, used, included, usd }) => ({
            of: inSnakeCase(priced),
            used: hundredth(used),
            included,
            usd: usdView(usd),
          })),
        },
      },
      200,
    );
  });
}

function workflowView(cost: WorkflowCost): z.infer<typeof WorkflowCostSchema> {
  return {
    workflow: cost.workflow,
    basis: cost.basis,
    runs_seen: cost.seen,
    runs: cost.rate,
    steps: cost.steps,
    messages: hundredth(cost.messages),
    per_run: amounts(cost.perRun),
    usd_per_thousand_runs: usdView(cost.usdPerRun * 1000),
    runs_per_month: cost.runsPerMonth,
    usd_per_month: usdView(cost.usdPerMonth),
    usd_by: amounts(cost.split, usdView),
  };
}

function amounts(usage: Usage, view: (amount: number) => number = hundredth): Record<string, number> {
  return Object.fromEntries(Object.entries(usage).map(([name, amount]) => [inSnakeCase(name), view(amount)]));
}

function hundredth(amount: number): number {
  return Math.round(amount * 100) / 100;
}
