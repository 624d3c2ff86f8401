import { sql } from "../../contract/sql.ts";
import { getDeadLetter } from "../../inspect/dead-letters.ts";
import { query } from "../../store/d1/retry.ts";
import { type BulkCall, defineBulkVerb } from "../../topology/define-bulk-verb.ts";
import { planReplay } from "../letters/plan-replay.ts";
import { replayDeadLetter } from "../letters/replay.ts";
import { skipDeadLetter } from "../letters/skip.ts";
import { letterFilter, letterMembers } from "./filters.ts";
import { sentAgain } from "./sent-again.ts";
import { unknownOfLetters } from "./unknown-names.ts";

/** A bulk action reads only dead letters of its tenant, and makes no corrections. */
const readerOf = ({ by }: BulkCall) => ({ ...by, scopes: ["operate"] });

const ofLetters = {
  noun: "dead letters",
  filter: letterFilter,
  members: letterMembers,
  unknown: unknownOfLetters,
  async isSpent({ env, by }: BulkCall, id: string) {
    return (
      (
        await query(
          env.DB,
          sql`SELECT 1 FROM millrace_dead_letters
        WHERE id = ${id} AND tenant_id = ${by.tenantId} AND state <> 'open'`,
        )
      ).length > 0
    );
  },
};

export const skipLetters = defineBulkVerb({
  ...ofLetters,
  name: "skip",
  follows: "Final: a skipped dead letter cannot be replayed. If its command never started, the command is skipped too.",
  async act(call, id) {
    const { skipped } = await skipDeadLetter(call.env, call.catalog, readerOf(call), id, call.reason);
    return skipped ? { changed: true } : { changed: false, why: "The dead letter was replayed or skipped before: no change was needed." };
  },
  async refusal(call, id) {
    await getDeadLetter(call.env, readerOf(call), id);
    return null;
  },
});

export const replayLetters = defineBulkVerb({
  ...ofLetters,
  name: "replay",
  async act(call, id) {
    const { sent, why } = await replayDeadLetter(call.env, call.catalog, readerOf(call), id, { reason: call.reason });
    return { changed: sent, why };
  },
  async refusal(call, id) {
    const { outcome, why } = await planReplay(call.env, call.catalog, readerOf(call), id, undefined);
    return outcome === "refused" ? why : null;
  },
  outcomes: sentAgain,
});
