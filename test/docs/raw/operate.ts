import type { RawEnv } from "./env.ts";
import { doubtType } from "./guard.ts";
import { start, takeIn } from "./intake.ts";
import { CustomerWelcome, commandId, Malformed, read } from "./messages.ts";

export interface Operator {
  tenantId: string;
  actor: string;
}

/** Restarts a failed command; recorded effects are kept, because the guard answers them from their rows. False when it has not failed. */
export async function retry(env: RawEnv, by: Operator, commandId: string, reason: string): Promise<boolean> {
  const action = crypto.randomUUID();
  const [changed] = await env.DB.batch([
    env.DB.prepare(`UPDATE commands SET status = 'running', error = NULL WHERE id = ?1 AND tenant_id = ?2 AND status = 'errored'`).bind(
      commandId,
      by.tenantId,
    ),
    audit(env, by, { action, verb: "retry", target: commandId, commandId, eventType: null, reason }),
  ]);
  if (changed?.meta.changes !== 1) return false;
  await applyActions(env, action);
  return true;
}

/** Answers an unknown outcome: it happened, with this output; or it did not, and is run. False when there is none. */
export async function resolve(env: RawEnv, by: Operator, key: string, verb: "confirm" | "reject", output: unknown, reason: string) {
  const [id = "", step = ""] = key.split("~").map(decodeURIComponent);
  const action = crypto.randomUUID();
  const entry = await env.DB.prepare(
    "SELECT epoch FROM effects e JOIN commands c ON c.id = e.command_id WHERE e.command_id = ?1 AND e.step = ?2 AND e.state = 'in_doubt' AND c.tenant_id = ?3",
  )
    .bind(id, step, by.tenantId)
    .first<{ epoch: number }>();
  if (!entry) return false;
  const [changed] = await env.DB.batch([
    env.DB.prepare(
      "UPDATE effects SET state = ?4, output = ?5, error = NULL WHERE command_id = ?1 AND step = ?2 AND epoch = ?3 AND state = 'in_doubt'",
    ).bind(id, step, entry.epoch, verb === "confirm" ? "confirmed" : "failed", verb === "confirm" ? JSON.stringify(output ?? null) : null),
    audit(env, by, { action, verb, target: key, commandId: id, eventType: doubtType(step, entry.epoch), reason }),
    env.DB.prepare("UPDATE commands SET status = 'running' WHERE id = ?1 AND status = 'in_doubt'").bind(id),
  ]);
  if (changed?.meta.changes !== 1) return false;
  await applyActions(env, action);
  return true;
}

/** Sends a dead letter's command again, corrected if it was wrong. Throws `Malformed` when it still is. Undefined when it is not open. */
export async function replay(env: RawEnv, by: Operator, letterId: string, body: unknown, reason: string): Promise<string | undefined> {
  const letter = await env.DB.prepare(
    "SELECT body FROM dead_letters WHERE id = ?1 AND tenant_id = ?2 AND queue = 'customer-commands' AND state = 'open'",
  )
    .bind(letterId, by.tenantId)
    .first<{ body: string }>();
  if (!letter) return undefined;
  const command = read(CustomerWelcome, body ?? JSON.parse(letter.body));
  if (command.tenant_id !== by.tenantId) throw new Malformed("invalid_envelope", "The message belongs to another tenant.");
  const id = commandId(command);
  const [changed] = await env.DB.batch([
    env.DB.prepare("UPDATE dead_letters SET state = 'replayed' WHERE id = ?1 AND state = 'open'").bind(letterId),
    audit(env, by, { action: crypto.randomUUID(), verb: "replay", target: letterId, commandId: id, eventType: null, reason }),
    env.DB.prepare("UPDATE actions SET applied_at = at WHERE target = ?1 AND verb = 'replay'").bind(letterId),
    env.DB.prepare("UPDATE commands SET status = 'queued', check_at = ?2 WHERE id = ?1 AND status = 'dead'").bind(id, Date.now() + 60_000),
  ]);
  if (changed?.meta.changes !== 1) return undefined;
  if (await takeIn(env, command)) await start(env, command);
  return id;
}

/** The audit row of an action, written only if the statement before it changed something. */
function audit(
  env: RawEnv,
  by: Operator,
  one: { action: string; verb: string; target: string; commandId: string; eventType: string | null; reason: string },
): D1PreparedStatement {
  return env.DB.prepare(
    `INSERT INTO actions (id, tenant_id, actor, verb, target, command_id, event_type, reason, at)
     SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 WHERE changes() = 1`,
  ).bind(one.action, by.tenantId, by.actor, one.verb, one.target, one.commandId, one.eventType, one.reason, Date.now());
}

/** Executes stored actions on the platform: one, or all that a crash left open. */
export async function applyActions(env: RawEnv, action?: string): Promise<void> {
  const { results } = await env.DB.prepare(
    "SELECT id, verb, command_id, event_type FROM actions WHERE applied_at IS NULL AND (?1 IS NULL OR id = ?1)",
  )
    .bind(action ?? null)
    .all<{ id: string; verb: string; command_id: string; event_type: string | null }>();
  for (const { id, verb, command_id, event_type } of results) {
    const instance = await env.WELCOME_CUSTOMER.get(command_id);
    if (verb === "retry") await instance.restart();
    else await instance.sendEvent({ type: event_type ?? "", payload: {} });
    await env.DB.prepare("UPDATE actions SET applied_at = ?2 WHERE id = ?1").bind(id, Date.now()).run();
  }
}
