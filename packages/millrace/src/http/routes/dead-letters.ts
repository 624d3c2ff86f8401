import * as z from "zod";
import { type Hide, shownCode } from "../../contract/hide.ts";
import { type DeadLetterRow, getDeadLetter, hideInErrors, listDeadLetters } from "../../inspect/dead-letters.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import { knownMessage, planOf } from "../../operate/letters/plan-replay.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { KNOWN_NAMES, refuseUnknownNames } from "../known-names.ts";
import { page, pageOf, pageQuery } from "../paging.ts";
import { IssueSchema, problems } from "../problem.ts";
import { redactionFor, revealQuery } from "../redaction.ts";
import { ReplayPlanSchema, replayPlanView } from "../replay-plan.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { iso, isoOrNull, timestamp } from "../time.ts";

const STATES = ["open", "replayed", "skipped"] as const;

const DeadLetterSchema = z
  .object({
    id: z.string(),
    queue: z.string(),
    message_type: z.string().nullable(),
    idempotency_key: z.string().nullable(),
    correlation_id: z.string().nullable(),
    instance_id: z.string().nullable(),
    reason: z.string().meta({ description: "A code, or `exhausted`." }),
    error: z.string().nullable(),
    issues: z.array(IssueSchema).nullable(),
    step: z.string().nullable().meta({ description: "The failed step, if the error names one." }),
    upstream_status: z.int().nullable().meta({ description: "The HTTP status of an upstream in the last attempt, if any." }),
    cause: z.string().nullable().meta({
      description: "The `id` in `/v1/dead-letters/causes`. Null if it was captured before causes existed.",
    }),
    attempts: z.int(),
    first_at: timestamp.meta({ description: "When it was sent." }),
    first_attempt_at: timestamp.nullable().meta({ description: "When its first attempt failed; null if not recorded." }),
    last_attempt_at: timestamp.nullable().meta({ description: "When the attempt with this error failed." }),
    captured_at: timestamp,
    state: z.enum(STATES),
    escalation: z
      .object({ by: z.string(), at: timestamp, note: z.string() })
      .nullable()
      .meta({ description: "The escalation: actor, time and note." }),
    repair: z
      .object({
        name: z.string(),
        outcome: z.enum(["sent", "refused", "failed"]),
        at: timestamp,
        changed: z.array(z.string()).meta({ description: "The changed fields as dotted paths, at most 20." }),
        error: z.string().nullable().meta({ description: "Why the repair failed; null if it succeeded." }),
      })
      .nullable()
      .meta({ description: "The automatic repair that was tried on it." }),
  })
  .meta({ id: "DeadLetter" });

const DeadLetterDetailSchema = DeadLetterSchema.extend({
  body: z.unknown().meta({ description: "The message as received." }),
  definition: z
    .object({
      type: z.string(),
      kind: z.enum(["command", "event"]),
      version: z.int().meta({ description: "The current version of its schema." }),
      queues: z.array(z.string()),
      workflow: z.string().nullable().meta({ description: "For a command: the workflow that handles it." }),
    })
    .nullable()
    .meta({ description: "The deployed definition of its type; null if the type is unknown." }),
  replay: ReplayPlanSchema.meta({
    description: "The result of a replay of the unchanged message now, with the issues by the current schema.",
  }),
}).meta({ id: "DeadLetterDetail" });

const params = z.object({ id: z.string() });

const list = createRoute({
  method: "get",
  path: "/v1/dead-letters",
  operationId: "listDeadLetters",
  command: "dead-letters list",
  summary: "List dead letters, newest first",
  description:
    "A token with the scope `unattributed` also reads dead letters without a tenant. A page filtered by `queue`, `reason` or `type` scans 5,000 dead letters. It may be short or empty and still have a `next_cursor`.",
  ...needs("read"),
  request: {
    query: z.strictObject({
      state: z.enum(STATES).default("open"),
      queue: z.string().optional().meta({ description: KNOWN_NAMES }),
      reason: z
        .string()
        .optional()
        .meta({ description: `A code, or \`exhausted\`. ${KNOWN_NAMES}` }),
      type: z.string().optional().meta({ description: "The message's type." }),
      cause: z.string().optional().meta({ description: "An `id` of `/v1/dead-letters/causes`." }),
      escalated: z.enum(["true", "false"]).optional().meta({ description: "True lists only escalated ones." }),
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
  command: "dead-letters show",
  summary: "Get a dead letter with its message and the result of a replay",
  description:
    "Fields marked as sensitive are `[redacted]`. For an unknown type on a queue with sensitive fields, everything except the envelope is redacted. Send redacted values back unchanged: a replay keeps the stored values.",
  ...needs("read"),
  request: { params, query: z.strictObject(revealQuery) },
  responses: {
    200: answers("The dead letter", DeadLetterDetailSchema),
    ...problems("unauthorized", "forbidden", "dead_letter_not_found", "invalid_payload"),
  },
});

export function deadLetters(catalog: Catalog, codes: readonly string[]) {
  return new Routes<HttpEnv>()
    .openapi(list, async (context) => {
      const { escalated, ...filter } = context.req.valid("query");
      const isEscalated = escalated === undefined ? undefined : escalated === "true";
      const found = await listDeadLetters(context.env, context.var.caller, { ...filter, escalated: isEscalated });
      refuseUnknownNames(
        found,
        {
          queue: { name: filter.queue, known: catalog.consumers.map(({ queue }) => queue.name) },
          reason: { name: filter.reason, known: ["exhausted", ...codes] },
        },
        filter.cursor,
      );
      const ids = found.items.map(({ id }) => id);
      const hide = await hideInErrors(context.env, context.var.caller, redactionOf(catalog), ids);
      return context.json(
        page(found, (letter) => letterView(letter, hide(letter.id))),
        200,
      );
    })
    .openapi(show, async (context) => {
      const letter = await getDeadLetter(context.env, context.var.caller, context.req.valid("param").id);
      const redaction = await redactionFor(context, catalog);
      const { body, hide } = redaction.letter(letter.queue, letter.body);
      const plan = await planOf(context.env, catalog, context.var.caller, letter);
      const replay = replayPlanView(plan, context, hide);
      const known = knownMessage(catalog, letter);
      const definition = known && { ...known, queues: [...known.queues] };
      return context.json({ ...letterView(letter, hide), body, definition, replay }, 200);
    });
}

export function letterView(letter: DeadLetterRow, hide: Hide): z.infer<typeof DeadLetterSchema> {
  return {
    id: letter.id,
    queue: letter.queue,
    message_type: letter.messageType,
    idempotency_key: letter.idempotencyKey,
    correlation_id: letter.correlationId,
    instance_id: letter.instanceId,
    reason: shownCode(hide, letter.reason),
    error: hide(letter.error),
    issues: letter.issues?.map(({ path, message }) => ({ path: hide(path), message: hide(message) })) ?? null,
    step: hide(letter.step),
    upstream_status: letter.upstreamStatus,
    cause: letter.cause,
    attempts: letter.attempts,
    first_at: iso(letter.firstAt),
    first_attempt_at: isoOrNull(letter.firstAttemptAt),
    last_attempt_at: isoOrNull(letter.lastAttemptAt),
    captured_at: iso(letter.capturedAt),
    state: letter.state,
    escalation: letter.escalation && { ...letter.escalation, at: iso(letter.escalation.at) },
    repair: letter.repair && {
      ...letter.repair,
      at: iso(letter.repair.at),
      changed: letter.repair.changed.map(hide),
      error: hide(letter.repair.error),
    },
  };
}
