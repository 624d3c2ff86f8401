// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the searched text is source, with the placeholders of its SQL.
import { mutantsOf } from "./mutant.ts";

const REMOVE = "packages/millrace/src/store/instances/remove.ts";
const ARCHIVE = "test/engine/keeper/archive.test.ts";
const TEST = "test/engine/keeper/retention.test.ts";

/** Rows that are deleted too early, or without a tombstone. */
export const RETENTION = mutantsOf("retention", {
  "the command of a pruned key runs again": {
    file: "packages/millrace/src/store/instances/accept.ts",
    find: "${HELD_MS})\n    FROM given WHERE NOT ${isPruned(ID)}",
    put: "${HELD_MS})\n    FROM given WHERE true",
    killedBy: TEST,
  },
  "a pruned instance leaves no tombstone": {
    file: "packages/millrace/src/store/tombstones.ts",
    find: "FROM millrace_instances WHERE id IN ${among(ids)} AND ${isOver(old)} ${andNoted(old)}\n    ON CONFLICT",
    put: "FROM millrace_instances WHERE id IN ${among(ids)} AND ${isOver(old)} AND false ${andNoted(old)}\n    ON CONFLICT",
    killedBy: TEST,
  },
  "the row of an instance is removed although it changed after the retention check": {
    file: REMOVE,
    find: "DELETE FROM millrace_instances WHERE id IN ${among(ids)} AND ${isOver(old)} ${andNoted(old)} RETURNING id",
    put: "DELETE FROM millrace_instances WHERE id IN ${among(ids)} ${andNoted(old)} RETURNING id",
    killedBy: TEST,
  },
  "an effect with an unknown outcome is removed with its instance": {
    file: REMOVE,
    find: "\n    AND NOT EXISTS (SELECT 1 FROM millrace_inbox\n      WHERE millrace_inbox.instance_id = millrace_instances.id AND millrace_inbox.state = 'in_doubt'))`",
    put: ")`",
    killedBy: TEST,
  },
  "an unhandled dead letter is deleted silently": {
    file: "packages/millrace/src/keeper/retention.ts",
    find: "if (tenantId === null || catalog === undefined)",
    put: "if (tenantId === null || catalog !== null)",
    killedBy: "test/systems/facts/forgotten-letters.test.ts",
  },
  "an instance is removed although its copy in R2 was deleted": {
    file: REMOVE,
    find: "if (object === undefined) return sql``;",
    put: "if (object !== null) return sql``;",
    killedBy: ARCHIVE,
  },
  "the erasure of a person does not wait for a move to R2": {
    file: "packages/millrace/src/erase/rewrite.ts",
    find: 'from === "" ? (await query(env.DB, selectArchiving(tenantId))).length : 0',
    put: "0",
    killedBy: ARCHIVE,
  },
  "a copy of a crashed move is not removed": {
    file: "packages/millrace/src/keeper/prune-instances.ts",
    find: "if (unfinished.length > 0)",
    put: "if (unfinished.length > 1)",
    killedBy: ARCHIVE,
  },
  "an event that a wait holds is removed": {
    file: "packages/millrace/src/store/signals.ts",
    find: "\n      OR EXISTS (SELECT 1 FROM millrace_waits WHERE millrace_waits.instance_id = i.id\n        AND millrace_waits.signal_id = millrace_signals.id)",
    put: "",
    killedBy: "test/engine/keeper/outbox.test.ts",
  },
});
