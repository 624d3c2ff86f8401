import * as z from "zod";
import { type Cause, listInstanceCauses, listLetterCauses } from "../../inspect/causes.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { KNOWN_NAMES, refuseUnknownNames } from "../known-names.ts";
import { page, pageOf, pageQuery } from "../paging.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { iso, timestamp } from "../time.ts";

const common = {
  id: z.string().meta({ description: "Stable: the same failure has the same id. Lists filter by it (`cause=`)." }),
  message_type: z.string().nullable(),
  step: z.string().nullable().meta({ description: "The failed step, if the error names one." }),
  message: z.string().meta({ description: "The error message without numbers, ids and quoted values." }),
  count: z.int().meta({ description: "The exact current count." }),
  first_at: timestamp.meta({ description: "When the first of the current ones was recorded." }),
  last_at: timestamp.meta({ description: "When the last one was recorded." }),
};

const LetterCauseSchema = z
  .object({
    ...common,
    queue: z.string(),
    reason: z.string(),
    dead_letter_id: z.string().nullable().meta({ description: "The newest." }),
  })
  .meta({ id: "DeadLetterCause" });

const InstanceCauseSchema = z
  .object({ ...common, workflow: z.string(), code: z.string(), instance_id: z.string().nullable().meta({ description: "The newest." }) })
  .meta({ id: "InstanceCause" });

const refusals = problems("unauthorized", "forbidden", "invalid_payload");

const ofLetters = createRoute({
  method: "get",
  path: "/v1/dead-letters/causes",
  operationId: "listDeadLetterCauses",
  command: "dead-letters causes",
  summary: "Count open dead letters by cause, most recent first",
  description: "A cause consists of queue, message type, step (if any), code, and the error message without its variable parts.",
  ...needs("read"),
  request: {
    query: z.strictObject({
      queue: z.string().optional().meta({ description: KNOWN_NAMES }),
      reason: z
        .string()
        .optional()
        .meta({ description: `A code, or \`exhausted\`. ${KNOWN_NAMES}` }),
      type: z.string().optional().meta({ description: "The message's type." }),
      ...pageQuery,
    }),
  },
  responses: { 200: answers("A page of causes", pageOf(LetterCauseSchema)), ...refusals },
});

const ofInstances = createRoute({
  method: "get",
  path: "/v1/instances/causes",
  operationId: "listInstanceCauses",
  command: "instances causes",
  summary: "Count errored instances by cause, most recent first",
  description: "A cause consists of workflow, step, code, and the error message without its variable parts.",
  ...needs("read"),
  request: {
    query: z.strictObject({
      workflow: z.string().optional().meta({ description: KNOWN_NAMES }),
      code: z.string().optional(),
      ...pageQuery,
    }),
  },
  responses: { 200: answers("A page of causes", pageOf(InstanceCauseSchema)), ...refusals },
});

export function causes(catalog: Catalog, codes: readonly string[]) {
  return new Routes<HttpEnv>()
    .openapi(ofLetters, async (context) => {
      const filter = context.req.valid("query");
      const found = await listLetterCauses(context.env, context.var.caller, filter, redactionOf(catalog));
      refuseUnknownNames(found, {
        queue: { name: filter.queue, known: catalog.consumers.map(({ queue }) => queue.name) },
        reason: { name: filter.reason, known: ["exhausted", ...codes] },
      });
      return context.json(page(found, letterCause), 200);
    })
    .openapi(ofInstances, async (context) => {
      const filter = context.req.valid("query");
      const found = await listInstanceCauses(context.env, context.var.caller, filter, redactionOf(catalog));
      refuseUnknownNames(found, { workflow: { name: filter.workflow, known: catalog.workflows.map(({ name }) => name) } });
      return context.json(page(found, instanceCause), 200);
    });
}

function commonView({ id, messageType, step, message, count, firstAt, lastAt }: Cause) {
  return { id, message_type: messageType, step, message, count, first_at: iso(firstAt), last_at: iso(lastAt) };
}

function letterCause(cause: Cause): z.infer<typeof LetterCauseSchema> {
  return { ...commonView(cause), queue: cause.place, reason: cause.code, dead_letter_id: cause.sample };
}

function instanceCause(cause: Cause): z.infer<typeof InstanceCauseSchema> {
  return { ...commonView(cause), workflow: cause.place, code: cause.code, instance_id: cause.sample };
}
