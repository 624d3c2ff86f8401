import { type Asker, assertMayAsk } from "../access/may-ask.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import { codeOf, MillraceError } from "../contract/errors.ts";
import { digest } from "../contract/ids.ts";
import { sql } from "../contract/sql.ts";
import type { SaidTrace } from "../contract/trace.ts";
import { type Accepted, enqueueIf } from "../intake/accept/enqueue.ts";
import { audit } from "../store/actions.ts";
import { isKnown } from "../store/instances/keys.ts";
import { insertHandRun, isHandRun } from "../store/schedule-runs.ts";
import type { Catalog } from "../topology/catalog.ts";
import { findHandRun, storedSchedule } from "./schedule.ts";

/** The instance of a schedule's run, and whether the instance existed before the request. */
type Run = Pick<Accepted, "instanceId" | "replayed" | "status">;

/**
 * Runs a schedule's command now, even if the schedule is paused. The schedule's due times remain unchanged. `occasion` identifies the run.
 * A repeated request returns the same run while the record of the run exists, even if the schedule was changed or deleted after the run.
 * Errors: `schedule_not_found`, `forbidden` for a command that the token may not send, and the errors of the command.
 */
export async function runSchedule(
  env: EngineEnv,
  catalog: Catalog,
  by: Asker,
  name: string,
  { reason, occasion: wish, ...trace }: { reason: string; occasion: string } & SaidTrace,
): Promise<Run> {
  const occasion = digest(wish);
  const named = { tenantId: by.tenantId, name };
  const before = await findHandRun(env, named, occasion);
  if (before !== undefined) return { ...before, replayed: true };

  const schedule = await storedSchedule(env, by, name);
  assertMayAsk(catalog, by, schedule.command);
  const key = `schedule/${name}/by hand/${occasion}`;
  const { command: type, schemaVersion, payload } = schedule;
  const request = { type, schemaVersion, payload, idempotencyKey: key, causationId: key, ...trace };
  const action = { id: crypto.randomUUID(), verb: "run", target: name, reason } as const;
  const accepted = await enqueueIf(env, catalog, { tenantId: by.tenantId, source: `schedule:${name}` }, request, (command) => {
    const run = { instanceId: command.id, reason, occasion };
    return {
      also: [insertHandRun(named, run, Date.now(), sql`NOT ${isKnown(command)}`), audit(by, { ...action, instanceId: command.id }, false)],
      provided: isHandRun(named, run),
    };
  });
  if (accepted !== undefined && codeOf(accepted) !== "idempotency_key_reused") {
    if (accepted instanceof MillraceError) throw accepted;
    return accepted;
  }
  // A concurrent request with the same occasion was first, and the schedule was changed between the two requests.
  const other = await findHandRun(env, named, occasion);
  if (other !== undefined) return { ...other, replayed: true };
  throw keyKnown(name);
}

/** The error for a manual run whose record was pruned, or whose key belongs to another command. */
function keyKnown(name: string): MillraceError {
  return new MillraceError(
    "idempotency_key_reused",
    `The Idempotency-Key belongs to an earlier run of the schedule "${name}", with another payload: use a new key for a new run.`,
    { issues: [{ path: "idempotency_key", message: "belongs to a run with another payload" }] },
  );
}
