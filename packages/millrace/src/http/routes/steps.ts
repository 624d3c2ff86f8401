import * as z from "zod";
import { hiddenIn } from "../../contract/row.ts";
import { getInstance } from "../../inspect/instances.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import { Step, stepsOf } from "../../inspect/steps.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";

const list = createRoute({
  method: "get",
  path: "/v1/instances/{id}/steps",
  operationId: "listSteps",
  command: "instances steps",
  summary: "List the steps of an instance",
  description:
    "Returns the steps of the current run with attempts, sleeps and waits, from the history of the platform. Removed history is replaced by the recorded effects, without attempts. An inline step is shown by its effect, with its attempt.",
  ...needs("read"),
  request: { params: z.object({ id: z.string() }) },
  responses: {
    200: answers(
      "The steps, oldest first",
      z.object({
        items: z.array(Step),
        truncated: z.boolean().meta({ description: "True if the platform has more steps than this answer contains." }),
      }),
    ),
    ...problems("unauthorized", "forbidden", "instance_not_found"),
  },
});

export function steps(catalog: Catalog) {
  return new Routes<HttpEnv>().openapi(list, async (context) => {
    const instance = await getInstance(context.env, context.var.caller, context.req.valid("param").id);
    const hide = (await redactionOf(catalog).ofInstances(context.env, context.var.caller, [instance.id]))(instance.id);
    const history = await stepsOf(context.env, context.var.caller, instance);
    return context.json({ items: history.steps.map((step) => hiddenIn(Step, step, hide)), truncated: history.truncated }, 200);
  });
}
