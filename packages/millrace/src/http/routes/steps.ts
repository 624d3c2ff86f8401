import * as z from "zod";
import { hiddenIn } from "../../contract/row.ts";
import { getInstance } from "../../inspect/instances.ts";
import { recordOf } from "../../inspect/record.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import { Step, stepsOf } from "../../inspect/steps.ts";
import { INSTANCE_STATUSES } from "../../store/instances/status.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { problems } from "../problem.ts";
import { redactionFor, revealQuery } from "../redaction.ts";
import { answers } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";

const list = createRoute({
  ...at("get", "/v1/instances/{id}/steps", "listSteps", "instances steps"),
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

const RecordSchema = z
  .object({
    id: z.string(),
    workflow: z.string(),
    version: z.int(),
    status: z.enum(INSTANCE_STATUSES),
    run: z.int(),
    envelope: z.looseObject({}).meta({ description: "The message of the instance." }),
    left: z.string().nullable().meta({ description: "The state that earlier runs left to later replays, as JSON." }),
    lost: z.string().nullable().meta({ description: "The steps without a record after a restore of the database, as JSON." }),
    entries: z.array(z.looseObject({})).meta({ description: "The recorded effects, with their order and outputs." }),
    waits: z.array(z.object({ name: z.string(), type: z.string(), subject: z.string(), is_over: z.boolean() })),
    events: z.looseObject({}).meta({ description: "The received events and answers." }),
    steps: z.array(z.looseObject({})).meta({ description: "The steps of the platform, with their outputs." }),
    is_redacted: z.boolean().meta({ description: "True if sensitive values are hidden, so that a replay could take another path." }),
  })
  .meta({ id: "RunRecord" });

const record = createRoute({
  method: "get",
  path: "/v1/instances/{id}/record",
  operationId: "getRecord",
  command: "instances record",
  summary: "Get everything that a replay of an instance reads",
  description:
    "For `millrace check`, which replays open instances with new code. Outputs above 64 KiB are left out. The fields follow the engine's tables and may change.",
  ...needs("read"),
  request: { params: z.object({ id: z.string() }), query: z.strictObject(revealQuery) },
  responses: {
    200: answers("The record", RecordSchema),
    ...problems("unauthorized", "forbidden", "instance_not_found", "invalid_payload"),
  },
});

export function steps(catalog: Catalog) {
  const routes = new Routes<HttpEnv>().openapi(record, async (context) => {
    const { id } = await getInstance(context.env, context.var.caller, context.req.valid("param").id);
    const redaction = await redactionFor(context, catalog);
    const found = await recordOf(context.env, context.var.caller, id, redaction);
    return context.json(found as unknown as z.infer<typeof RecordSchema>, 200);
  });
  return routes.openapi(list, async (context) => {
    const instance = await getInstance(context.env, context.var.caller, context.req.valid("param").id);
    const hide = (await redactionOf(catalog).ofInstances(context.env, context.var.caller, [instance.id]))(instance.id);
    const history = await stepsOf(context.env, context.var.caller, instance);
    return context.json({ items: history.steps.map((step) => hiddenIn(Step, step, hide)), truncated: history.truncated }, 200);
  });
}
