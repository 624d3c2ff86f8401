import * as z from "zod";
import { COST_PARTS, type Cost, type CostPart } from "../observe/cost/instance-cost.ts";
import { usdView } from "./usd.ts";

const PartSchema = z
  .object({
    amount: z.number(),
    mark: z.enum(["counted", "estimated"]).meta({
      description:
        "`counted`: as the database and the run's own end have it. `estimated`: part of it is not kept, or is shared with others.",
    }),
    usd: z.number(),
  })
  .meta({ id: "CostPart" });

const PartsSchema = z.object({
  steps: PartSchema.meta({ description: "Steps, sleeps and waits, as they are billed: retries of a step are not." }),
  rows_written: PartSchema.meta({ description: "Rows of the database with those of indexes, the app's own among them." }),
  rows_read: PartSchema,
  queue_operations: PartSchema.meta({ description: "Three for each message of up to 64 KB." }),
  requests: PartSchema.meta({ description: "The request, batches of queues, instances of the platform." }),
  object_requests: PartSchema.meta({ description: "Calls to the recorder, and to its lane." }),
  log_lines: PartSchema,
});

/** What an instance has cost. */
export const CostSchema = z
  .object({
    usd: z.number().meta({ description: "By list prices, beyond what the plan includes. Without CPU time and storage." }),
    usd_counted: z.number().meta({ description: "Of that, what is counted and not estimated." }),
    messages: z.int().meta({ description: "Messages that it sent, and its own where that came from outside." }),
    parts: PartsSchema,
  })
  .meta({ id: "Cost" });

/** A cost as the API answers it. */
export function costView({ usd, usdCounted, messages, parts }: Cost): z.infer<typeof CostSchema> {
  const view = Object.fromEntries(COST_PARTS.map((part) => [inSnakeCase(part), partView(parts[part])]));
  return { usd: usdView(usd), usd_counted: usdView(usdCounted), messages, parts: view as z.infer<typeof PartsSchema> };
}

function partView({ amount, mark, usd }: CostPart): z.infer<typeof PartSchema> {
  return { amount: Math.round(amount * 100) / 100, mark, usd: usdView(usd) };
}

/** A name of the engine as the API says it. */
export function inSnakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
