import * as z from "zod";
import { getDeadLetter } from "../../inspect/dead-letters.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import { correctionOf } from "../../operate/as-stored.ts";
import { planOf, Replayed, replayDeadLetter } from "../../operate/letters/replay.ts";
import { escalateDeadLetter, skipDeadLetter } from "../../operate/letters/settle.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { BODY_REFUSALS, reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { problems } from "../problem.ts";
import { ReplayPlanSchema, replayPlanView } from "../replay-plan.ts";
import { answers } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";

/** Size limit of a replay in bytes. A larger message could not be sent, because queues limit a message to 128 KB. */
const REPLAY_MAX_BYTES = 120_000;

const replaySchema = reasoned.extend({
  body: z
    .unknown()
    .optional()
    .meta({ description: "The corrected message. Default: the message as received. It is validated like a command." }),
  dry_run: z
    .boolean()
    .default(false)
    .meta({ description: "True returns the consequences and the identity of the message, and changes nothing." }),
});

const params = z.object({ id: z.string() });

const replay = createRoute({
  ...at("post", "/v1/dead-letters/{id}/replay", "replayDeadLetter", "dead-letters replay"),
  summary: "Replay a dead letter, optionally corrected",
  description:
    "Sends the message back to its queue. A message that would be refused again remains a dead letter, and the answer has the reason. A dry run answers 200 with `refused`.",
  ...needs("operate"),
  request: { params, body: jsonBody(replaySchema) },
  responses: {
    200: answers(
      "A dry run: the result of a replay. Or nothing was left to do; the attempt is audited",
      z.union([ReplayPlanSchema, Replayed]),
    ),
    202: answers("The message is on its queue again", Replayed),
    ...problems(...BODY_REFUSALS, "dead_letter_not_found", "unknown_message_type", "invalid_envelope"),
  },
});

const skip = createRoute({
  ...at("post", "/v1/dead-letters/{id}/skip", "skipDeadLetter", "dead-letters skip"),
  summary: "Skip a dead letter",
  description: "Discards the message: it is not sent again. The dead letter and the reason remain on record.",
  ...needs("operate"),
  request: { params, body: jsonBody(reasoned) },
  responses: {
    200: answers(
      "Skipped, or already settled",
      z.object({
        action_id: z.string(),
        skipped: z.boolean().meta({ description: "False if another operator settled it first." }),
      }),
    ),
    ...problems(...BODY_REFUSALS, "dead_letter_not_found"),
  },
});

const escalate = createRoute({
  ...at("post", "/v1/dead-letters/{id}/escalate", "escalateDeadLetter", "dead-letters escalate"),
  summary: "Escalate a dead letter",
  description: "Sends `reason` as a note to the alert channels, once. The dead letter remains open.",
  ...needs("operate"),
  request: { params, body: jsonBody(reasoned) },
  responses: {
    200: answers(
      "Escalated, or already escalated or settled",
      z.object({
        action_id: z.string(),
        escalated: z.boolean().meta({ description: "False if another operator escalated or settled it first." }),
      }),
    ),
    ...problems(...BODY_REFUSALS, "dead_letter_not_found"),
  },
});

export function settleLetters(catalog: Catalog) {
  return new Routes<HttpEnv>()
    .openapi(replay, async (context) => {
      const { dry_run, ...options } = await readBody(context.req, replaySchema, { maxBytes: REPLAY_MAX_BYTES });
      const { id } = context.req.valid("param");
      if (dry_run) {
        const letter = await getDeadLetter(context.env, context.var.caller, id);
        const body = correctionOf(catalog, letter, options.body);
        const plan = await planOf(context.env, catalog, context.var.caller, letter, body);
        const redaction = redactionOf(catalog);
        const hidden = [letter.body, ...(body === undefined ? [] : [body])].map((one) => redaction.letter(letter.queue, one).hide);
        return context.json(
          replayPlanView(plan, context, (value) => hidden.reduce((shown, hide) => hide(shown), value)),
          200,
        );
      }
      const done = await replayDeadLetter(context.env, catalog, context.var.caller, id, options);
      return context.json(done, done.sent ? 202 : 200);
    })
    .openapi(skip, async (context) => {
      const { reason } = await readBody(context.req, reasoned);
      return context.json(await skipDeadLetter(context.env, catalog, context.var.caller, context.req.valid("param").id, reason), 200);
    })
    .openapi(escalate, async (context) => {
      const { reason } = await readBody(context.req, reasoned);
      return context.json(await escalateDeadLetter(context.env, context.var.caller, context.req.valid("param").id, reason), 200);
    });
}
