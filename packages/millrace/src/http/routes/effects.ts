import * as z from "zod";
import { INTAKE_LIMITS } from "../../contract/limits.ts";
import { component } from "../../contract/row.ts";
import { Doubt, DoubtFilter, doubtBehind, EffectRow, listEffects, listEffectsOf } from "../../inspect/effects.ts";
import { getInstance } from "../../inspect/instances.ts";
import { resolveDoubt } from "../../operate/instances/resolve.ts";
import { operation, reasoned } from "../operation.ts";
import { pageOf, pageQuery, timeCursor } from "../paging.ts";
import { hiddenPage, hiddenRows, revealQuery } from "../redaction.ts";

const resolving = {
  answer: ["The outcome is decided, and the instance continues", component("Resolved", { action_id: z.string(), instance_id: z.string() })],
  status: 202,
  problems: ["effect_not_found", "invalid_transition"],
} as const;

export const effects = [
  operation("get", "/v1/instances/{id}/effects", "listEffects", "instances effects", {
    summary: "List the effects of an instance",
    description: "Returns every recorded effect of the instance with its class, state, input and output.",
    query: revealQuery,
    answer: ["Effects in the order of their steps", z.object({ items: z.array(EffectRow) })],
    archived: true,
    async run(asked) {
      const { id } = await getInstance(asked.env, asked.by, asked.param.id);
      const found = await listEffectsOf(asked.env, asked.by, id);
      return { items: await hiddenRows(asked, EffectRow, found, () => id) };
    },
  }),
  operation("get", "/v1/effects", "listEffectsInDoubt", "effects list", {
    summary: "List effects with an unknown outcome, oldest first",
    description: "Returns effects that may or may not have happened. Decide each with `confirm`, `reject` or `retry`.",
    query: { ...DoubtFilter.shape, cursor: timeCursor((cursor) => doubtBehind(cursor)?.at), limit: pageQuery.limit, ...revealQuery },
    answer: ["A page of effects with an unknown outcome", pageOf(Doubt)],
    run: async (asked) => hiddenPage(asked, Doubt, await listEffects(asked.env, asked.by, asked.query)),
  }),
  operation("post", "/v1/effects/{key}/confirm", "confirmEffect", "effects confirm", {
    summary: "Confirm that an effect happened",
    description: "Records the output of the effect. The instance continues with it.",
    ...resolving,
    body: reasoned.extend({
      output: z
        .unknown()
        .refine((output) => output !== undefined, "is missing: send the output of the effect, which the step returns; null if it has none")
        .describe("The output of the effect, which the step returns. Null if it has none."),
    }),
    limits: { maxBytes: INTAKE_LIMITS.maxBytes },
    run: ({ env, by, param, body: { output, reason } }) => resolveDoubt(env, by, param.key, { verb: "confirm", output }, reason),
  }),
  operation("post", "/v1/effects/{key}/reject", "rejectEffect", "effects reject", {
    summary: "Reject an effect: it did not happen",
    description: "Records that the effect did not happen. The step runs again.",
    ...resolving,
    body: reasoned,
    run: ({ env, by, param, body }) => resolveDoubt(env, by, param.key, { verb: "reject" }, body.reason),
  }),
  operation("post", "/v1/effects/{key}/retry", "retryEffect", "effects retry", {
    summary: "Retry an effect that may happen twice",
    "x-final": "If the effect happened, it happens twice. This cannot be undone.",
    description: "Runs the step again although its outcome is unknown. The effect may happen twice.",
    ...resolving,
    body: reasoned,
    run: ({ env, by, param, body }) => resolveDoubt(env, by, param.key, { verb: "retry_anyway" }, body.reason),
  }),
];
