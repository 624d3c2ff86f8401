import * as z from "zod";
import { planUndo, UNDO_VERDICTS, undoInstance } from "../../operate/instances/undo.ts";
import { BODY_REFUSALS, reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";

const undoSchema = reasoned.extend({
  dry_run: z.boolean().default(false).meta({ description: "True only says what would happen, as far as it is recorded." }),
});

const PlanSchema = z
  .object({
    refused: z.string().nullable().meta({ description: "Why it would be refused now; null when it would be done." }),
    effects: z.array(
      z.object({
        step: z.string(),
        item: z.string(),
        verdict: z.enum(UNDO_VERDICTS).meta({
          description:
            "`undone`: it is taken back; `stays`: its code has no way to; `asked`: the upstream is asked first whether it happened; `repeated`: it failed without a record, and may have happened: it is done once more under its key, so that this is certain, and then taken back; `nothing`: it did not happen; `in_doubt`: resolve it first; `unknown`: it failed without a record and is left, or somebody had it done once more because nobody knew.",
        }),
      }),
    ),
  })
  .meta({ id: "UndoPlan" });

const undoRoute = createRoute({
  method: "post",
  path: "/v1/instances/{id}/undo",
  operationId: "undoInstance",
  summary: "Take back what an instance did",
  description:
    "Its recorded effects that can be taken back are, in reverse order, each once; then it is terminated. A retry afterwards does them again. A dry run lists them in the order in which they would be taken back.",
  ...needs("operate"),
  request: { params: z.object({ id: z.string() }), body: jsonBody(undoSchema) },
  responses: {
    200: answers("A dry run: what an undo would do", PlanSchema),
    202: answers("It is being undone", z.object({ action_id: z.string() })),
    ...problems(...BODY_REFUSALS, "instance_not_found", "invalid_transition"),
  },
});

export function undo() {
  return new Routes<HttpEnv>().openapi(undoRoute, async (context) => {
    const { id } = context.req.valid("param");
    const { reason, dry_run } = await readBody(context.req, undoSchema);
    if (dry_run) return context.json(await planUndo(context.env, context.var.caller, id), 200);
    const { actionId } = await undoInstance(context.env, context.var.caller, id, reason);
    return context.json({ action_id: actionId }, 202);
  });
}
