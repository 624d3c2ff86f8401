import * as z from "zod";
import { COST_PARTS, type Cost, type CostPart } from "../observe/cost/instance-cost.ts";
import { usdView } from "./usd.ts";

const PartSchema = z
  .object({
    amount: z.number(),
    mark: z.enum(["counted", "estimated"]).meta({
      description:
        "`counted`: recorded by the database and at the end of the run. `estimated`: part of it is not recorded or is shared with other runs.",
    }),
    usd: z.number(),
  })
  .meta({ id: "CostPart" });

const PartsSchema = z.object({
  steps: PartSchema.meta({ description: "Billed steps, sleeps and waits. Retries of a step are not billed." }),
  rows_written: PartSchema.meta({ description: "Rows of the database including index rows and rows of the app." }),
  rows_read: PartSchema,
  queue_operations: PartSchema.meta({ description: "Three operations for each message of up to 64 KB." }),
  requests: PartSchema.meta({ description: "The HTTP request, queue batches and Workflow instances." }),
  object_requests: PartSchema.meta({ description: "Calls to the recorder and to the lane object." }),
  log_lines: PartSchema,
});

export const CostSchema = z
  .object({
    usd: z
      .number()
      .meta({ description: "The cost by list prices, beyond the included usage of the plan. CPU time and storage are not included." }),
    usd_counted: z.number().meta({ description: "The part of the cost that is counted, not estimated." }),
    messages: z.int().meta({ description: "Messages that the instance sent, and its own if it came from outside." }),
    parts: PartsSchema,
  })
  .meta({ id: "Cost" });

export function costView({ usd, usdCounted, messages, parts }: Cost): z.infer<typeof CostSchema> {
  const view = Object.fromEntries(COST_PARTS.map((part) => [inSnakeCase(part), partView(parts[part])]));
  return { usd: usdView(usd), usd_counted: usdView(usdCounted), messages, parts: view as z.infer<typeof PartsSchema> };
}

function partView({ amount, mark, usd }: CostPart): z.infer<typeof PartSchema> {
  return { amount: Math.round(amount * 100) / 100, mark, usd: usdView(usd) };
}

export function inSnakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
