import type { EngineEnv } from "../../contract/bindings.ts";
import { sql } from "../../contract/sql.ts";
import { wakeFromDoubt } from "../../operate/carry-out/wake-from-doubt.ts";
import { query } from "../../store/d1/retry.ts";
import { watchLost } from "../../store/instances/look.ts";
import { UNDER_WAY } from "../../store/instances/status.ts";
import type { Check } from "../check.ts";
import { slicedBy } from "../place.ts";
import { engineCheck } from "./engine-check.ts";

/** Maximum number of instances in one slice of the scan. */
const ROWS = 250;

interface Row {
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
export const instances: Check = engineCheck({
  name: "instances",
  everyHours: 24,
  kinds: {
    unwatched: {
      says: "An instance is in progress, but has no time for its next keeper check.",
      mend: (env, { what }) => query(env.DB, watchLost([what])),
    },
    in_doubt_without_doubt: {
      says: "An instance is in doubt, but none of its effects has an unknown outcome.",
      mend: (env, { what }) => wakeFromDoubt(env, what),
    },
    dead_without_letter: { says: "An instance never started because its message was refused, and no open dead letter holds that message." },
    beside_tombstone: { says: "An instance has a row, and a tombstone that says its row was removed." },
  },
  async slice(env, from) {
    const rows = await readInstances(env, from);
    return slicedBy(rows, ROWS, ({ place }) => String(place), found);
  },
});

function readInstances(env: EngineEnv, from: string | null): Promise<Row[]> {
  return query<Row>(
    env.DB,
    sql`
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
      FROM millrace_instances WHERE rowid >= ${Number(from ?? Number.MIN_SAFE_INTEGER)} ORDER BY rowid LIMIT ${ROWS + 1}`,
  );
}

function found({ id, tenant_id, workflow, status, unwatched, buried, unlettered, undoubted }: Row) {
  const about = { what: id, tenantId: tenant_id };
  const row = `The row of ${workflow} says ${status}`;
  return [
    ...(unwatched ? [{ ...about, kind: "unwatched", detail: `${row}, and check_at is empty.` }] : []),
    ...(undoubted ? [{ ...about, kind: "in_doubt_without_doubt", detail: `${row}, and no entry of its inbox does.` }] : []),
    ...(unlettered ? [{ ...about, kind: "dead_without_letter", detail: `${row}, and it has no open letter.` }] : []),
    ...(buried ? [{ ...about, kind: "beside_tombstone", detail: `${row}, and its tombstone says that it was removed.` }] : []),
  ];
}
