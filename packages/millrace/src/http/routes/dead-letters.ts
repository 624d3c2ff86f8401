import * as z from "zod";
import { hiddenIn } from "../../contract/row.ts";
import {
  DeadLetterFilter,
  DeadLetterRow,
  FullDeadLetter,
  getDeadLetter,
  hideInErrors,
  listDeadLetters,
} from "../../inspect/dead-letters.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import { knownMessage, planOf } from "../../operate/letters/replay.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { refuseUnknownNames } from "../known-names.ts";
import { page, pageOf, pageQuery } from "../paging.ts";
import { redactionFor, revealQuery } from "../redaction.ts";
import { ReplayPlanSchema, replayPlanView } from "../replay-plan.ts";
import { reads } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";

const DeadLetterDetail = FullDeadLetter.extend({
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
  ...at("get", "/v1/dead-letters", "listDeadLetters", "dead-letters list"),
  summary: "List dead letters, newest first",
  description:
    "A token with the scope `unattributed` also reads dead letters without a tenant. A page filtered by `queue`, `reason` or `type` scans 5,000 dead letters. It may be short or empty and still have a `next_cursor`.",
  ...needs("read"),
  request: {
    query: DeadLetterFilter.extend(pageQuery).strict(),
  },
  responses: reads("A page of dead letters", pageOf(DeadLetterRow)),
});

const show = createRoute({
  ...at("get", "/v1/dead-letters/{id}", "getDeadLetter", "dead-letters show"),
  summary: "Get a dead letter with its message and the result of a replay",
  description:
    "Fields marked as sensitive are `[redacted]`. For an unknown type on a queue with sensitive fields, everything except the envelope is redacted. Send redacted values back unchanged: a replay keeps the stored values.",
  ...needs("read"),
  request: { params, query: z.strictObject(revealQuery) },
  responses: reads("The dead letter", DeadLetterDetail, "dead_letter_not_found"),
});

export function deadLetters(catalog: Catalog, codes: readonly string[]) {
  return new Routes<HttpEnv>()
    .openapi(list, async (context) => {
      const filter = context.req.valid("query");
      const found = await listDeadLetters(context.env, context.var.caller, filter);
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
        page(found, (letter) => hiddenIn(DeadLetterRow, letter, hide(letter.id))),
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
      return context.json({ ...hiddenIn(DeadLetterRow, letter, hide), body, definition, replay }, 200);
    });
}
