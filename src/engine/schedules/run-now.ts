import type { EngineEnv } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { digest, instanceId } from "../contract/ids.ts";
import { sql } from "../contract/sql.ts";
import type { SaidTrace } from "../contract/trace.ts";
import { type Accepted, enqueue } from "../intake/enqueue.ts";
import { audit } from "../operate/audit.ts";
import { type Asker, assertMayAsk } from "../operate/may-ask.ts";
import type { Catalog } from "../topology/catalog.ts";
import { getSchedule, insertRun } from "./schedule.ts";

/**
 * Runs a schedule's command now, also that of a paused one; its times stay as they are. `occasion` names the wish: the same one is the same run.
 * Errors: `schedule_not_found`, `forbidden` for a command that the token may not ask for, and what the command may be refused for.
 */
export async function runSchedule(
  env: EngineEnv,
  catalog: Catalog,
  by: Asker,
  name: string,
  { reason, occasion, ...trace }: { reason: string; occasion: string } & SaidTrace,
): Promise<Accepted> {
  const schedule = await getSchedule(env, by, name);
  assertMayAsk(catalog, by, schedule.command);
  const key = `schedule/${name}/by hand/${digest(occasion)}`;
  const id = instanceId(by.tenantId, catalog.performer(schedule.command).name, key);
  const at = Date.now();
  const run = { dueAt: at, state: "by_hand", untilAt: at, times: 1, instanceId: id, reason } as const;
  const request = { type: schedule.command, payload: schedule.payload, idempotencyKey: key, causationId: key, ...trace };
  const [accepted] = await enqueue(
    env,
    catalog,
    { tenantId: by.tenantId, source: `schedule:${name}` },
    [request],
    [
      insertRun(schedule, run, at, sql`NOT EXISTS (SELECT 1 FROM instances WHERE id = ${id})`),
      audit(by, { id: crypto.randomUUID(), verb: "run", target: name, instanceId: id, reason }, false),
    ],
  );
  if (!accepted || accepted instanceof MillraceError) throw accepted;
  return accepted;
}
