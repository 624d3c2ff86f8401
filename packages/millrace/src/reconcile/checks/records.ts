import { pathOf } from "../../contract/payload.ts";
import { sql } from "../../contract/sql.ts";
import { wakeFromDoubt } from "../../operate/carry-out/platform-runs.ts";
import { query } from "../../store/d1/retry.ts";
import { watchLost } from "../../store/instances/look.ts";
import { ENDED, GOING_ON, RUNS_NO_MORE, UNDER_WAY } from "../../store/instances/status.ts";
import { markInDoubt } from "../../store/instances/wait.ts";
import { scan } from "../scan.ts";

interface InstanceRow {
  place: number;
  id: string;
  tenant_id: string;
  workflow: string;
  status: string;
  unwatched: number;
  buried: number;
  unlettered: number;
  undoubted: number;
}

/** Compares the status of each instance's row with related records in the database, from the oldest row to the newest row. */
export const instances = scan<InstanceRow, readonly [number]>({
  name: "instances",
  everyHours: 24,
  kinds: {
    unwatched: {
      says: "An instance is in progress, but has no time for its next keeper check.",
      fix: (env, { what }) => query(env.DB, watchLost([what])),
    },
    in_doubt_without_doubt: {
      says: "An instance is in doubt, but none of its effects has an unknown outcome.",
      fix: (env, { what }) => wakeFromDoubt(env, what),
    },
    dead_without_letter: { says: "An instance never started because its message was refused, and no open dead letter holds that message." },
    beside_tombstone: { says: "An instance has a row, and a tombstone that says its row was removed." },
  },
  rows: 250,
  start: [Number.MIN_SAFE_INTEGER],
  select: ([place], limit) => sql`
    SELECT rowid AS place, id, tenant_id, workflow, status,
      check_at IS NULL AND status IN ${UNDER_WAY}
        AND NOT EXISTS (SELECT 1 FROM millrace_actions
          WHERE applied_at IS NULL AND millrace_actions.instance_id = millrace_instances.id) AS unwatched,
      EXISTS (SELECT 1 FROM millrace_tombstones WHERE millrace_tombstones.id = unhex(millrace_instances.id)) AS buried,
      status = 'dead' AND NOT EXISTS (
        SELECT 1 FROM millrace_dead_letters WHERE millrace_dead_letters.instance_id = millrace_instances.id
          AND state = 'open') AS unlettered,
      status = 'in_doubt' AND NOT EXISTS (
        SELECT 1 FROM millrace_inbox WHERE millrace_inbox.instance_id = millrace_instances.id
          AND millrace_inbox.state = 'in_doubt') AS undoubted
    FROM millrace_instances WHERE rowid >= ${place} ORDER BY rowid LIMIT ${limit}`,
  place: ({ place }) => [place],
  find: ({ workflow, status, unwatched, buried, unlettered, undoubted }) => {
    const row = `The row of ${workflow} says ${status}`;
    return [
      unwatched && { kind: "unwatched", detail: `${row}, and check_at is empty.` },
      undoubted && { kind: "in_doubt_without_doubt", detail: `${row}, and no entry of its inbox does.` },
      unlettered && { kind: "dead_without_letter", detail: `${row}, and it has no open letter.` },
      buried && { kind: "beside_tombstone", detail: `${row}, and its tombstone says that it was removed.` },
    ];
  },
});

interface DoubtRow {
  updated_at: number;
  id: string;
  tenant_id: string | null;
  workflow: string;
  status: string;
  unseen: number;
}

/** Compares effects with an unknown outcome with the rows of their instances. */
export const doubts = scan<DoubtRow, readonly [number, string]>({
  name: "doubts",
  everyHours: 1,
  kinds: {
    doubt_unseen: {
      says: "An effect has an unknown outcome, but the status of its instance is not in_doubt.",
      fix: (env, { what }) => query(env.DB, markInDoubt(what)),
    },
  },
  rows: 250,
  start: [0, ""],
  select: ([updatedAt, instanceId], limit) => sql`
    SELECT e.updated_at, i.id, i.tenant_id, i.workflow, i.status, i.status IN ${GOING_ON} AS unseen
    FROM millrace_inbox e INDEXED BY millrace_inbox_in_doubt CROSS JOIN millrace_instances i ON i.id = e.instance_id
    WHERE e.state = 'in_doubt' AND (e.updated_at, e.instance_id) >= (${updatedAt}, ${instanceId})
    ORDER BY e.updated_at, e.instance_id LIMIT ${limit}`,
  place: ({ updated_at, id }) => [updated_at, id],
  find: ({ workflow, status, unseen }) => [
    unseen && { kind: "doubt_unseen", detail: `The row of ${workflow} says ${status}, an entry of its inbox in_doubt.` },
  ],
});

interface LetterRow {
  id: string;
  instance_id: string;
  tenant_id: string | null;
  reason: string;
  workflow: string | null;
  status: string | null;
  ended: number;
}

/** Compares open dead letters of commands with the instances that the failed commands should have started. */
export const letters = scan<LetterRow, readonly [string, string]>({
  name: "letters",
  everyHours: 1,
  kinds: {
    letter_of_ended: { says: "A dead letter is open, but the instance of its message has ended." },
  },
  rows: 250,
  start: ["", ""],
  select: ([instanceId, letterId], limit) => sql`
    SELECT l.id, l.instance_id, l.tenant_id, l.reason, i.workflow, i.status, i.status IN ${ENDED} AS ended
    FROM millrace_dead_letters l INDEXED BY millrace_dead_letters_of_instance LEFT JOIN millrace_instances i ON i.id = l.instance_id
    WHERE l.state = 'open' AND l.instance_id IS NOT NULL AND (l.instance_id, l.id) >= (${instanceId}, ${letterId})
    ORDER BY l.instance_id, l.id LIMIT ${limit}`,
  place: ({ instance_id, id }) => [instance_id, id],
  find: ({ reason, workflow, status, ended }) => [
    ended && { kind: "letter_of_ended", detail: `Open (${reason}); the row of ${workflow} says ${status}.` },
  ],
});

interface PayloadRow {
  ref: string;
  id: string;
  tenant_id: string;
  workflow: string;
  status: string;
  needed: number;
}

/** Compares the references to R2 in the rows of instances with the objects that R2 contains. Each payload needs one R2 request. */
export const payloads = scan<PayloadRow, readonly [string]>({
  name: "payloads",
  everyHours: 24,
  kinds: {
    payload_missing: { says: "An instance may still need its payload, which is not in R2." },
  },
  rows: 50,
  start: [""],
  select: ([ref], limit) => sql`
    SELECT envelope->>'payload_ref' AS ref, id, tenant_id, workflow, status, status NOT IN ${RUNS_NO_MORE} AS needed
    FROM millrace_instances INDEXED BY millrace_instances_by_payload
    WHERE envelope->>'payload_ref' IS NOT NULL AND envelope->>'payload_ref' >= ${ref}
    ORDER BY envelope->>'payload_ref' LIMIT ${limit}`,
  place: ({ ref }) => [ref],
  find: async ({ ref, workflow, status, needed }, env) => {
    if (needed !== 1 || (await env.PAYLOADS.head(pathOf(ref)))) return [];
    return [{ kind: "payload_missing", detail: `The row of ${workflow} says ${status}; R2 has no object with the name in its message.` }];
  },
});
