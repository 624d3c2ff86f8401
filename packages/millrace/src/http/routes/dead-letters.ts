import * as z from "zod";
import type { Hide } from "../../contract/hide.ts";
import { queuesOf } from "../../contract/queue.ts";
import { hiddenIn } from "../../contract/row.ts";
import { LetterCause, LetterCauseFilter, listLetterCauses } from "../../inspect/causes.ts";
import {
  DeadLetterFilter,
  DeadLetterRow,
  FullDeadLetter,
  getDeadLetter,
  hideInErrors,
  listDeadLetters,
} from "../../inspect/dead-letters.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import { textField } from "../../intake/letters/letter.ts";
import {
  correctionOf,
  escalateDeadLetter,
  planOf,
  Replayed,
  type ReplayPlan,
  ReplayPlanRow,
  replayDeadLetter,
  skipDeadLetter,
} from "../../operate/letters/settle.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { operation, reasoned } from "../operation.ts";
import { page, pageOf, pageQuery, refuseUnknownNames } from "../paging.ts";
import { ProblemSchema, problemOf } from "../problem.ts";
import type { Problems } from "../problems.ts";
import { redactionFor, revealQuery } from "../redaction.ts";

const ReplayPlanSchema = ReplayPlanRow.extend({ refused: z.union([ProblemSchema, z.null()]) }).meta({ id: "ReplayPlan" });

function planView(plan: ReplayPlan, problems: Problems, hide: Hide): z.infer<typeof ReplayPlanSchema> {
  const { refused, ...row } = hiddenIn(ReplayPlanRow, plan, hide);
  return { ...row, refused: refused && hiddenProblem(problemOf(refused, problems), hide) };
}

function hiddenProblem(problem: z.infer<typeof ProblemSchema>, hide: Hide): z.infer<typeof ProblemSchema> {
  const { detail, issues, did_you_mean: meant } = problem;
  return {
    ...problem,
    detail: hide(detail),
    ...(issues && { issues: issues.map(({ path, message }) => ({ path: hide(path), message: hide(message) })) }),
    ...(meant && { did_you_mean: hide(meant) }),
  };
}

const KnownMessage = z.object({
  type: z.string(),
  kind: z.enum(["command", "event"]),
  version: z.int().describe("The current version of its schema."),
  queues: z.array(z.string()),
  workflow: z.string().nullable().describe("For a command: the workflow that handles it."),
});

/** Null for a type that the current catalog does not have. */
function knownMessage(catalog: Catalog, { body }: Pick<FullDeadLetter, "body">): z.infer<typeof KnownMessage> | null {
  const type = textField(body, "message_type");
  const kinds = type === null ? [] : catalog.kindsOf(type);
  const kind = kinds.find((one) => one === textField(body, "kind")) ?? kinds[0];
  if (type === null || kind === undefined) return null;
  const workflow = kind === "command" ? catalog.performer(type) : null;
  const { version, queue } = workflow?.on ?? catalog.subscribers(type).event;
  return { type, kind, version, queues: [...queuesOf(queue)], workflow: workflow?.name ?? null };
}

const DeadLetterDetail = FullDeadLetter.extend({
  definition: KnownMessage.nullable().describe("The deployed definition of its type; null if the type is unknown."),
  replay: ReplayPlanSchema.describe("The result of a replay of the unchanged message now, with the issues by the current schema."),
}).meta({ id: "DeadLetterDetail" });

/** Queues limit a message to 128 KB. */
const REPLAY_MAX_BYTES = 120_000;

export const deadLetters = [
  // This route is registered before the route with an id at the same position of the path.
  operation("get", "/v1/dead-letters/causes", "listDeadLetterCauses", "dead-letters causes", {
    summary: "Count open dead letters by cause, most recent first",
    description: "A cause consists of queue, message type, step (if any), code, and the error message without its variable parts.",
    query: { ...LetterCauseFilter.shape, ...pageQuery },
    answer: ["A page of causes", pageOf(LetterCause)],
    async run(asked) {
      const { env, by, catalog, query } = asked;
      return page(refuseUnknownNames(asked, await listLetterCauses(env, by, query, redactionOf(catalog))));
    },
  }),
  operation("get", "/v1/dead-letters", "listDeadLetters", "dead-letters list", {
    summary: "List dead letters, newest first",
    description:
      "A token with the scope `unattributed` also reads dead letters without a tenant. A page filtered by `queue`, `reason` or `type` scans 5,000 dead letters. It may be short or empty and still have a `next_cursor`.",
    query: { ...DeadLetterFilter.shape, ...pageQuery },
    answer: ["A page of dead letters", pageOf(DeadLetterRow)],
    async run(asked) {
      const found = refuseUnknownNames(asked, await listDeadLetters(asked.env, asked.by, asked.query));
      const ids = found.items.map(({ id }) => id);
      const hide = await hideInErrors(asked.env, asked.by, redactionOf(asked.catalog), ids);
      return page(found, (letter) => hiddenIn(DeadLetterRow, letter, hide(letter.id)));
    },
  }),
  operation("get", "/v1/dead-letters/{id}", "getDeadLetter", "dead-letters show", {
    summary: "Get a dead letter with its message and the result of a replay",
    description:
      "Fields marked as sensitive are `[redacted]`. For an unknown type on a queue with sensitive fields, everything except the envelope is redacted. Send redacted values back unchanged: a replay keeps the stored values.",
    query: revealQuery,
    answer: ["The dead letter", DeadLetterDetail],
    problems: ["dead_letter_not_found"],
    async run(asked) {
      const { env, by, catalog, param, context } = asked;
      const letter = await getDeadLetter(env, by, param.id);
      const { body, hide } = (await redactionFor(asked)).letter(letter.queue, letter.body);
      const replay = planView(await planOf(env, catalog, by, letter), context.var.problems, hide);
      return { ...hiddenIn(DeadLetterRow, letter, hide), body, definition: knownMessage(catalog, letter), replay };
    },
  }),
  operation("post", "/v1/dead-letters/{id}/replay", "replayDeadLetter", "dead-letters replay", {
    summary: "Replay a dead letter, optionally corrected",
    description:
      "Sends the message back to its queue. A message that would be refused again remains a dead letter, and the answer has the reason. A dry run answers 200 with `refused`.",
    body: reasoned.extend({
      body: z.unknown().optional().describe("The corrected message. Default: the message as received. It is validated like a command."),
      dry_run: z.boolean().default(false).describe("True returns the consequences and the identity of the message, and changes nothing."),
    }),
    limits: { maxBytes: REPLAY_MAX_BYTES },
    plan: {
      answer: [
        "A dry run: the result of a replay. Or nothing was left to do; the attempt is audited",
        z.union([ReplayPlanSchema, Replayed]),
      ],
      async run({ env, by, catalog, param, body: { body: asked }, context }) {
        const letter = await getDeadLetter(env, by, param.id);
        const correction = correctionOf(catalog, letter, asked);
        const plan = await planOf(env, catalog, by, letter, correction);
        const bodies = correction === undefined ? [letter.body] : [letter.body, correction];
        const hidden = bodies.map((one) => redactionOf(catalog).letter(letter.queue, one).hide);
        return planView(plan, context.var.problems, (value) => hidden.reduce((shown, hide) => hide(shown), value));
      },
    },
    answer: ["The message is on its queue again", Replayed],
    status: 202,
    problems: ["dead_letter_not_found", "unknown_message_type", "invalid_envelope"],
    async run({ env, by, catalog, param, body, context }) {
      const done = await replayDeadLetter(env, catalog, by, param.id, body);
      return done.sent ? done : context.json(done, 200);
    },
  }),
  operation("post", "/v1/dead-letters/{id}/skip", "skipDeadLetter", "dead-letters skip", {
    summary: "Skip a dead letter",
    "x-final": "A skipped dead letter cannot be replayed.",
    description: "Discards the message: it is not sent again. The dead letter and the reason remain on record.",
    body: reasoned,
    answer: [
      "Skipped, or already settled",
      z.object({ action_id: z.string(), skipped: z.boolean().describe("False if another operator settled it first.") }),
    ],
    problems: ["dead_letter_not_found"],
    run: ({ env, by, catalog, param, body }) => skipDeadLetter(env, catalog, by, param.id, body.reason),
  }),
  operation("post", "/v1/dead-letters/{id}/escalate", "escalateDeadLetter", "dead-letters escalate", {
    summary: "Escalate a dead letter",
    description: "Sends the reason as a note to the alert channels, once. The dead letter remains open.",
    body: reasoned,
    answer: [
      "Escalated, or already escalated or settled",
      z.object({
        action_id: z.string(),
        escalated: z.boolean().describe("False if another operator escalated or settled it first."),
      }),
    ],
    problems: ["dead_letter_not_found"],
    run: ({ env, by, param, body }) => escalateDeadLetter(env, by, param.id, body.reason),
  }),
];
