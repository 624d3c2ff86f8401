import { createRoute, OpenAPIHono, z } from "@hono/zod-openapi";
import { type DeadLetterRow, getDeadLetter, listDeadLetters } from "../../inspect/dead-letters.ts";
import { replayDeadLetter } from "../../operate/replay.ts";
import { skipDeadLetter } from "../../operate/skip.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { BODY_REFUSALS, reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { KNOWN_NAMES, refuseUnknownNames } from "../known-names.ts";
import { page, pageOf, pageQuery } from "../paging.ts";
import { IssueSchema, problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { iso, timestamp } from "../time.ts";

/** A queue takes messages of 128 KB: a replay with a larger body could never be sent. */
const REPLAY_MAX_BYTES = 120_000;
const STATES = ["open", "replayed", "skipped"] as const;

const DeadLetterSchema = z
  .object({
    id: z.string(),
    queue: z.string(),
    message_type: z.string().nullable(),
    idempotency_key: z.string().nullable(),
    correlation_id: z.string().nullable(),
    instance_id: z.string().nullable(),
    reason: z.string().openapi({ description: "A code, or `exhausted`." }),
    error: z.string().nullable(),
    issues: z.array(IssueSchema).nullable(),
    attempts: z.int(),
    first_at: timestamp,
    captured_at: timestamp,
    state: z.enum(STATES),
  })
  .openapi("DeadLetter");

const DeadLetterDetailSchema = DeadLetterSchema.extend({
  body: z.unknown().openapi({ description: "The message as it came." }),
}).openapi("DeadLetterDetail");

const ReplayedSchema = z
  .object({
    action_id: z.string(),
    instance_id: z.string().nullable(),
    sent: z.boolean().openapi({ description: "False when there was nothing left to do." }),
    why: z.string(),
  })
  .openapi("Replayed");

const replaySchema = reasoned.extend({
  body: z
    .unknown()
    .optional()
    .meta({ description: "The message, corrected; default, when left out, as it came. It is validated first, as strictly as a command." }),
});

const params = z.object({ id: z.string() });

const list = createRoute({
  method: "get",
  path: "/v1/dead-letters",
  operationId: "listDeadLetters",
  summary: "List dead letters, newest first",
  description: "A token with the scope `unattributed` also sees those that name no tenant.",
  ...needs("read"),
  request: {
    query: z.strictObject({
      state: z.enum(STATES).default("open"),
      queue: z.string().optional().openapi({ description: KNOWN_NAMES }),
      reason: z
        .string()
        .optional()
        .openapi({ description: `A code, or \`exhausted\`. ${KNOWN_NAMES}` }),
      ...pageQuery,
    }),
  },
  responses: {
    200: answers("A page of dead letters", pageOf(DeadLetterSchema)),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

const show = createRoute({
  method: "get",
  path: "/v1/dead-letters/{id}",
  operationId: "getDeadLetter",
  summary: "Show a dead letter with its message",
  ...needs("read"),
  request: { params },
  responses: {
    200: answers("The dead letter", DeadLetterDetailSchema),
    ...problems("unauthorized", "forbidden", "dead_letter_not_found"),
  },
});

const replay = createRoute({
  method: "post",
  path: "/v1/dead-letters/{id}/replay",
  operationId: "replayDeadLetter",
  summary: "Send a dead letter back to its queue, if wished corrected",
  description: "A message that would be refused again stays where it is, and the answer says why.",
  ...needs("operate"),
  request: { params, body: jsonBody(replaySchema) },
  responses: {
    200: answers("Nothing was left to do; the attempt is audited", ReplayedSchema),
    202: answers("The message is on its queue again", ReplayedSchema),
    ...problems(...BODY_REFUSALS, "dead_letter_not_found", "unknown_message_type", "invalid_envelope"),
  },
});

const skip = createRoute({
  method: "post",
  path: "/v1/dead-letters/{id}/skip",
  operationId: "skipDeadLetter",
  summary: "Give a dead letter up",
  ...needs("operate"),
  request: { params, body: jsonBody(reasoned) },
  responses: {
    200: answers(
      "Skipped, or found settled already",
      z.object({
        action_id: z.string(),
        skipped: z.boolean().openapi({ description: "False when somebody else had settled it first." }),
      }),
    ),
    ...problems(...BODY_REFUSALS, "dead_letter_not_found"),
  },
});

export function deadLetters(catalog: Catalog, codes: readonly string[]) {
  return new OpenAPIHono<HttpEnv>()
    .openapi(list, async (context) => {
      const filter = context.req.valid("query");
      const found = await listDeadLetters(context.env, context.var.caller, filter);
      refuseUnknownNames(found, {
        queue: { name: filter.queue, known: catalog.consumers.map(({ queue }) => queue.name) },
        reason: { name: filter.reason, known: ["exhausted", ...codes] },
      });
      return context.json(page(found, letterView), 200);
    })
    .openapi(show, async (context) => {
      const letter = await getDeadLetter(context.env, context.var.caller, context.req.valid("param").id);
      return context.json({ ...letterView(letter), body: letter.body }, 200);
    })
    .openapi(replay, async (context) => {
      const options = await readBody(context.req, replaySchema, { maxBytes: REPLAY_MAX_BYTES });
      const done = await replayDeadLetter(context.env, catalog, context.var.caller, context.req.valid("param").id, options);
      const { actionId, instanceId, sent, why } = done;
      return context.json({ action_id: actionId, instance_id: instanceId, sent, why }, sent ? 202 : 200);
    })
    .openapi(skip, async (context) => {
      const { reason } = await readBody(context.req, reasoned);
      const { actionId, skipped } = await skipDeadLetter(context.env, catalog, context.var.caller, context.req.valid("param").id, reason);
      return context.json({ action_id: actionId, skipped }, 200);
    });
}

function letterView(letter: DeadLetterRow): z.infer<typeof DeadLetterSchema> {
  return {
    id: letter.id,
    queue: letter.queue,
    message_type: letter.messageType,
    idempotency_key: letter.idempotencyKey,
    correlation_id: letter.correlationId,
    instance_id: letter.instanceId,
    reason: letter.reason,
    error: letter.error,
    issues: letter.issues,
    attempts: letter.attempts,
    first_at: iso(letter.firstAt),
    captured_at: iso(letter.capturedAt),
    state: letter.state,
  };
}
