import type { EngineEnv } from "../../contract/bindings.ts";
import { now, sql } from "../../contract/sql.ts";
import { askPlatform } from "../../intake/platform.ts";
import { removeQuestions } from "../../store/approvals.ts";
import { atomically, query } from "../../store/d1/retry.ts";
import { removeEntries } from "../../store/inbox/read.ts";
import { ofGone } from "../../store/instances/remove.ts";
import { removeWaits } from "../../store/waits.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { type Check, type Checked, type Divergence, engineCheck } from "../scan.ts";

/** Maximum number of entries in one slice of the scan. If an instance has more entries, only this number of its entries is read. */
const ROWS = 1000;
/**
 * Maximum number of instances without a row that are looked up on the platform in one slice. Each instance is looked up in every workflow.
 */
const ASKED = 10;
/** Time after the expiry of a claim, in milliseconds, during which another attempt may still take over the claim. */
const SETTLED_MS = 3_600_000;

interface Group {
  id: string;
  rows: number;
  tenant_id: string | null;
  workflow: string | null;
  status: string | null;
  buried: number;
  unreleased: number;
}

/**
 * Compares the inbox entries with their instances. The platform cannot list its instances, so an instance without a row can only be found
 * by its entries.
 */
export const entries = (catalog: Catalog | undefined): Check =>
  engineCheck({
    name: "entries",
    everyHours: 24,
    kinds: {
      run_without_row: { says: "An instance is on the platform and has recorded steps, but no row." },
      entries_without_row: {
        says: "An instance has recorded steps, but neither row nor tombstone: a new instance with its key would skip these steps.",
      },
      entries_left: {
        says: "An instance has recorded steps, but its row was removed and left a tombstone.",
        fix: (env, { what }) =>
          atomically(
            env.DB,
            [removeEntries, removeWaits, removeQuestions].map((remove) => remove(sql`${ofGone([what])}`)),
          ),
      },
      claim_unreleased: { says: "An instance is complete, but has a claimed effect without a recorded outcome." },
    },
    async slice(env, from) {
      const groups = await readGroups(env, from ?? "");
      const read = groups.reduce((sum, { rows }) => sum + rows, 0);
      const last = groups.at(-1);
      // The last instance's entries may be incomplete, so the next slice starts with the last instance, unless the entries of this instance
      // fill a slice.
      const isCut = read > ROWS && last !== undefined;
      const whole = isCut && groups.length > 1 ? groups.slice(0, -1) : groups;
      const next = !isCut ? null : groups.length > 1 ? last.id : `${last.id}!`;
      return { found: await foundIn(env, catalog, whole), next } satisfies Checked;
    },
  });

function readGroups(env: EngineEnv, from: string): Promise<Group[]> {
  return query<Group>(
    env.DB,
    sql`
      SELECT entries.id, entries.rows, entries.unreleased, i.tenant_id, i.workflow, i.status,
        EXISTS (SELECT 1 FROM millrace_tombstones WHERE millrace_tombstones.id = unhex(entries.id)) AS buried
      FROM (
        SELECT instance_id AS id, count(*) AS rows,
          sum(state = 'claimed' AND error IS NULL AND lease_until <= ${now} - ${SETTLED_MS}) AS unreleased
        FROM (SELECT instance_id, state, error, lease_until FROM millrace_inbox
          WHERE instance_id >= ${from} ORDER BY instance_id LIMIT ${ROWS + 1})
        GROUP BY instance_id ORDER BY instance_id
      ) entries LEFT JOIN millrace_instances i ON i.id = entries.id`,
  );
}

async function foundIn(env: EngineEnv, catalog: Catalog | undefined, groups: readonly Group[]): Promise<Divergence[]> {
  const strangers = groups.filter(({ status, buried }) => status === null && !buried).slice(0, ASKED);
  const running = new Map(await Promise.all(strangers.map(async ({ id }) => [id, await workflowOf(env, catalog, id)] as const)));
  return groups.flatMap(({ id, rows, tenant_id, workflow, status, buried, unreleased }): Divergence[] => {
    const about = { what: id, tenantId: tenant_id, place: id };
    if (status === "complete" && unreleased > 0)
      return [{ ...about, kind: "claim_unreleased", detail: `The row of ${workflow} says complete, and ${unreleased} claims ran out.` }];
    if (status !== null) return [];
    if (buried) return [{ ...about, kind: "entries_left", detail: `${rows} entries, and a tombstone.` }];
    const known = running.get(id);
    if (known !== undefined)
      return [{ ...about, kind: "run_without_row", detail: `${rows} entries; ${known.workflow} is ${known.status} on the platform.` }];
    return [{ ...about, kind: "entries_without_row", detail: `${rows} entries; neither row nor tombstone.` }];
  });
}

/** Looks an instance up in each workflow in turn, because no record names its workflow. */
async function workflowOf(
  env: EngineEnv,
  catalog: Catalog | undefined,
  id: string,
): Promise<{ workflow: string; status: string } | undefined> {
  for (const { name } of catalog?.workflows ?? []) {
    const { status } = await askPlatform(env, name, id);
    if (status !== "unknown" && status !== "unreachable") return { workflow: name, status };
  }
  return undefined;
}
