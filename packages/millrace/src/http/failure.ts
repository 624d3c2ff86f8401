import * as z from "zod";
import type { Instance } from "../inspect/instances.ts";

export const FailureSchema = z
  .object({
    step: z.string().meta({ description: "As the platform names it; empty when the workflow's own code threw between steps." }),
    code: z.string(),
    message: z.string(),
    attempts: z.int(),
    behind: z.string().optional().meta({ description: "Where the code threw between steps: the step whose failure it had just heard of." }),
    at: z.string().optional().meta({ description: "Where the code threw between steps: the step that it named, and that was not begun." }),
    where: z
      .string()
      .optional()
      .meta({ description: "Where the code threw between steps: the first frame of its stack, with file and line." }),
    upstream_status: z.int().optional(),
    hint: z.string().optional().meta({
      description: "What may be behind it, and what to do then: an output that a person confirmed, and that the code cannot use.",
    }),
  })
  .meta({ id: "Failure" });

export function failureView(failure: Instance["error"]): z.infer<typeof FailureSchema> | null {
  if (failure === null) return null;
  const { step, behind, at, where, code, message, attempts, upstreamStatus, hint } = failure;
  return {
    step,
    ...(behind !== undefined && { behind }),
    ...(at !== undefined && { at }),
    ...(where !== undefined && { where }),
    code,
    message,
    attempts,
    ...(upstreamStatus !== undefined && { upstream_status: upstreamStatus }),
    ...(hint !== undefined && { hint }),
  };
}
