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
        "`runs`: by its newest runs. `code`: none was seen; at least what its code names, each step once. `nothing`: its code names none.",
    }),
    runs_seen: z.int().meta({ description: "How many of its newest runs were reckoned, 25 at most." }),
    runs: z
      .object({ hour: z.number(), day: z.number(), week: z.number() })
      .meta({ description: "Runs that ended in the last hour, day and week, those of the last minute perhaps not among them." }),
    steps: z.object({ typical: z.number(), most: z.number() }).nullable().meta({ description: "Of a run, as seen." }),
    messages: z.number(),
    per_run: AmountsSchema.meta({ description: "What a run uses on average, with the rows that its removal will write." }),
    usd_per_thousand_runs: z.number(),
    runs_per_month: z.number().meta({ description: "Thirty times the last day." }),
    usd_per_month: z.number().meta({ description: "By list prices, without what the plan includes." }),
    usd_by: AmountsSchema.meta({ description: "The same by what it is for." }),
  })
  .meta({ id: "WorkflowCost" });

const CostsSchema = z
  .object({
    prices_of: z.string().meta({ description: "When the list prices were read." }),
    workflows: z.array(WorkflowCostSchema),
    fixed: AmountsSchema.meta({
      description: "What the deployment uses a month without any run, the time of its objects at most, and the gigabytes it stores now.",
    }),
    month: z
      .object({
        usd: z.number().meta({ description: "With the plan, and without what it includes." }),
        plan_usd: z.number(),
        usd_by: AmountsSchema.meta({ description: "Dollars beyond the plan's quotas, by what they are for." }),
        used: z.array(z.object({ of: z.string(), used: z.number(), included: z.number(), usd: z.number() })),
      })
      .meta({ description: "The whole deployment, if nothing else runs in its account." }),
  })
  .meta({ id: "Costs" });

const list = createRoute({
  method: "get",
  path: "/v1/costs",
  operationId: "getCosts",
  summary: "Show what each workflow costs, and the deployment a month at its present rate",
  description: "Of all tenants together, by list prices. Without CPU time, R2, what objects of the app store, and what upstreams charge.",
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
