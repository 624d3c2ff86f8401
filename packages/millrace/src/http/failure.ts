import * as z from "zod";
import type { Instance } from "../inspect/instances.ts";

export const FailureSchema = z
  .object({
    step: z.string().meta({ description: "The step name of the platform; empty if the workflow code threw between steps." }),
    code: z.string(),
    message: z.string(),
    attempts: z.int(),
    behind: z.string().optional().meta({ description: "If the code threw between steps: the last step that failed before." }),
    at: z.string().optional().meta({ description: "If the code threw between steps: the step that it named and that did not start." }),
    where: z
      .string()
      .optional()
      .meta({ description: "If the code threw between steps: the first frame of the stack, with file and line." }),
    upstream_status: z.int().optional(),
    hint: z.string().optional().meta({
      description: "A likely cause and the next step: for example, the code cannot use an output that an operator confirmed.",
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
