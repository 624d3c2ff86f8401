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
  dry_run: z
    .boolean()
    .default(false)
    .meta({ description: "True returns the consequences, as far as they are recorded, and changes nothing." }),
});

const PlanSchema = z
  .object({
    refused: z.string().nullable().meta({ description: "Why it would be refused now; null if it would be accepted." }),
    effects: z.array(
      z.object({
        step: z.string(),
        item: z.string(),
        verdict: z.enum(UNDO_VERDICTS).meta({
          description:
            "`undone`: it is undone. `stays`: it remains, because it has no undo handler. `asked`: the upstream is asked first whether it happened. `repeated`: it failed without a recorded outcome; it runs again under its key and is then undone. `nothing`: it did not happen. `in_doubt`: decide its outcome first. `unknown`: it failed without a recorded outcome and is not changed, or an operator ran it again although its outcome was unknown.",
        }),
      }),
    ),
  })
  .meta({ id: "UndoPlan" });

const undoRoute = createRoute({
  method: "post",
  path: "/v1/instances/{id}/undo",
  operationId: "undoInstance",
  command: "instances undo",
  summary: "Undo an instance",
  description:
    "Undoes the recorded effects that have an undo handler, in reverse order, each once. Then the instance is terminated. A retry afterwards runs them again. A dry run lists the effects in the order of the undo.",
  ...needs("operate"),
  request: { params: z.object({ id: z.string() }), body: jsonBody(undoSchema) },
  responses: {
    200: answers("A dry run: the consequences of an undo", PlanSchema),
    202: answers("The undo was accepted", z.object({ action_id: z.string() })),
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
