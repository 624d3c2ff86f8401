import type { EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { platformId } from "../contract/ids.ts";
import { KEEPER_PATIENCE_MS } from "../contract/patience.ts";
import { type Fragment, now, sql } from "../contract/sql.ts";
import { markStarted } from "../intake/accept.ts";
import { askPlatform } from "../intake/platform.ts";
import { startInstances } from "../intake/start.ts";
import { finishInstance, markRunning } from "../recorder/inbox.ts";
import { tellAgain } from "../signals/assign.ts";
import { batch, query } from "../store/retry.ts";
import { oldestWaiting } from "./backlog.ts";

/** Instances looked at in one round. */
const ROWS = 200;
/**
 * The pause to the next look: half the instance's age, at most 30 seconds; for one that has been open for more than ten minutes a twentieth of its age,
 * at most 5 minutes. At most an hour for one that waits, maybe for weeks, because each look is a written row: whatever it waits for asks for a look at once.
 */
const PAUSE: Fragment = {
  fragment: `max(${KEEPER_PATIENCE_MS}, min((${now.fragment} - accepted_at) / 2, max(30000, (${now.fragment} - accepted_at) / 20), iif(status = 'waiting', 3600000, 300000)))`,
};
/** An accepted command may wait this long in a backlog before the keeper starts it past the queue. */
const MAX_QUEUED_MS = 900_000;

interface Row {
  id: string;
  workflow: string;
  envelope: string;
  status: string;
  queue: string | null;
  undo: string | null;
  accepted_at: number;
  age_ms: number;
}

/** What a row turned out to need. */
type Finding = "leave" | "start" | "running" | { ended: "complete" | "errored" | "terminated"; error: string | null };

/**
 * Looks at instances that have been open for a while: starts those that never started or that the platform has lost, and
 * writes down the end of those that ended unseen. The longer one is open, the longer the pauses.
 */
export async function checkInstances(env: EngineEnv): Promise<number> {
  const rows = await dueRows(env);
  if (rows.length === 0) return 0;
  const backlog = await oldestWaiting(
    env,
    rows.filter((row) => row.status === "accepted").flatMap((row) => row.queue ?? []),
  );
  const findings = await Promise.all(rows.map((row) => find(env, row, backlog)));
  const having = (wanted: Finding) => rows.filter((_, index) => findings[index] === wanted);

  const { failed } = await startInstances(
    env,
    having("start").map((row) => ({ ...row, envelope: JSON.parse(row.envelope) as Envelope })),
    "again",
  );
  const started = having("start").filter(({ id }) => !failed.has(id));
  await tellAgain(
    env,
    rows.map((row) => row.id),
  );
  await batch(env.DB, [
    sql`
      UPDATE instances SET check_at = ${now} + ${PAUSE}
      WHERE check_at IS NOT NULL AND id IN (SELECT value FROM json_each(${JSON.stringify(rows.map((row) => row.id))}))`,
    markStarted(started.map((row) => row.id)),
    ...having("running").map((row) => markRunning(row.id)),
    ...findings.flatMap((finding, index) =>
      typeof finding === "object" ? [finishInstance(rows[index]?.id ?? "", finding.ended, finding.error)] : [],
    ),
  ]);
  return findings.filter((finding) => finding !== "leave").length;
}

function dueRows(env: EngineEnv): Promise<Row[]> {
  return query<Row>(
    env.DB,
    sql`
      SELECT id, workflow, envelope, status, queue, undo, accepted_at, ${now} - accepted_at AS age_ms FROM instances
      WHERE check_at <= ${now} AND NOT EXISTS (SELECT 1 FROM actions WHERE applied_at IS NULL AND actions.instance_id = instances.id)
      ORDER BY check_at LIMIT ${ROWS}`,
  );
}

async function find(env: EngineEnv, row: Row, backlog: ReadonlyMap<string, number>): Promise<Finding> {
  if (row.status === "accepted") {
    const oldest = backlog.get(row.queue ?? "") ?? Number.POSITIVE_INFINITY;
    return oldest <= row.accepted_at + 1000 && row.age_ms < MAX_QUEUED_MS ? "leave" : "start";
  }
  const { status, error, instance } = await askPlatform(env, row.workflow, platformId(row.id, row.undo));
  switch (status) {
    case "unknown":
      return "start";
    case "complete":
      return { ended: row.undo === null ? "complete" : "terminated", error: null };
    case "terminated":
      return row.undo === null ? { ended: "terminated", error: null } : failed("Its undo was terminated on the platform.");
    case "errored":
      return failed(error?.slice(0, 1000) ?? "The platform ended it.");
    default:
      await nudge(env, instance);
      return row.status === "queued" && instance && status !== "queued" ? "running" : "leave";
  }
}

function failed(message: string): Finding {
  return { ended: "errored", error: JSON.stringify({ step: "", code: "step_failed", message, attempts: 0 }) };
}

/** Local only: after a killed process the platform's local form leaves an instance where it stood until something is sent to it. Any event will do; nobody waits for this one. */
async function nudge(env: EngineEnv & { KEEPER_NUDGES?: string }, instance: WorkflowInstance | null): Promise<void> {
  if (env.KEEPER_NUDGES === "true") await instance?.sendEvent({ type: "keeper-nudge", payload: {} }).catch(() => undefined);
}
