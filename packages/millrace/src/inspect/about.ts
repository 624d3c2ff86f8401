import type { EngineEnv } from "../contract/bindings.ts";
import { parseEntryKey } from "../contract/ids.ts";
import { among, sql } from "../contract/sql.ts";
import type { Operator } from "../store/actions.ts";
import { namedBatch } from "../store/d1/named.ts";

interface Target {
  readonly target: string;
  /** The instance that the action affected; null if the action has only a target. */
  readonly instance_id?: string | null;
}

/**
 * The titles of action targets. The title of an instance contains its workflow and subject. The title of an effect also contains its step.
 * The title of a dead letter contains its type and key. All other targets, and removed targets, have no title.
 */
export async function aboutThese(env: EngineEnv, by: Operator, targets: readonly Target[]): Promise<(target: Target) => string | null> {
  const steps = new Map(targets.flatMap(({ target }) => pairOf(target)));
  const ids = [...new Set(targets.flatMap((one) => [one.target, one.instance_id ?? [], steps.get(one.target)?.instanceId ?? []].flat()))];
  if (ids.length === 0) return () => null;
  const { instances, letters } = await namedBatch(env.DB, {
    instances: sql`SELECT id, workflow, subject FROM millrace_instances WHERE id IN ${among(ids)} AND +tenant_id = ${by.tenantId}`,
    letters: sql`
      SELECT id, message_type AS type, idempotency_key AS key FROM millrace_dead_letters
      WHERE id IN ${among(ids)} AND +tenant_id = ${by.tenantId}`,
  });
  const names = new Map([
    ...(letters as { id: string; type: string | null; key: string | null }[]).map(({ id, type, key }) => [id, said([type, key])] as const),
    ...(instances as { id: string; workflow: string; subject: string }[]).map(
      ({ id, workflow, subject }) => [id, said([workflow, subject])] as const,
    ),
  ]);
  return ({ target, instance_id: instanceId }) => {
    const entry = steps.get(target);
    const name = names.get(target) ?? names.get(entry?.instanceId ?? instanceId ?? "");
    return name === undefined ? null : said([entry?.step ?? null, name]);
  };
}

function pairOf(target: string): [string, { instanceId: string; step: string }][] {
  const entry = parseEntryKey(target);
  return entry ? [[target, entry]] : [];
}

const said = (parts: readonly (string | null)[]) => parts.filter(Boolean).join(" · ");
