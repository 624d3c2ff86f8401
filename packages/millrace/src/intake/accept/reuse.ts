import type { EngineEnv } from "../../contract/bindings.ts";
import type { Envelope } from "../../contract/envelope.ts";
import { MillraceError } from "../../contract/errors.ts";
import { fingerprintOf } from "../../contract/ids.ts";
import { unpackPayload } from "../../contract/payload.ts";
import { among, sql } from "../../contract/sql.ts";
import { query } from "../../store/d1/retry.ts";
import type { Catalog } from "../../topology/catalog.ts";
import type { Acceptance } from "./accept.ts";

/** The error for a key that belongs to an earlier message with another payload. */
export function keyReused({ idempotency_key, message_type }: Pick<Envelope, "idempotency_key" | "message_type">): MillraceError {
  return new MillraceError(
    "idempotency_key_reused",
    `The key "${idempotency_key}" belongs to an earlier ${message_type} with another payload. Use a new key for new work; to repeat the earlier work, send its payload.`,
    { issues: [{ path: "idempotency_key", message: "belongs to a message with another payload" }] },
  );
}

/**
 * Finds repeats of earlier requests among messages whose key is stored with a different fingerprint. A deployment that raised the version
 * of a payload, or added a default, changes the fingerprint of the same request. Therefore both payloads are compared under the present
 * definition. The function is called only when fingerprints differ. A stored payload that is gone or unreadable counts as different.
 */
export async function sameWork(env: EngineEnv, catalog: Catalog, asked: readonly Acceptance[]): Promise<ReadonlySet<Acceptance>> {
  if (asked.length === 0) return new Set();
  const rows = await query<{ id: string; envelope: string }>(
    env.DB,
    sql`SELECT id, envelope FROM millrace_instances WHERE id IN ${among(asked.map(({ id }) => id))}`,
  );
  const stored = new Map(rows.map(({ id, envelope }) => [id, envelope]));
  const same = await Promise.all(
    asked.map(async ({ id, workflow, envelope }) => {
      const definition = catalog.workflows.find(({ name }) => name === workflow)?.on;
      const earlier = stored.get(id);
      if (definition === undefined || earlier === undefined) return false;
      const says = async (one: Envelope) => fingerprintOf(await unpackPayload(env.PAYLOADS, definition, one));
      return Promise.all([says(envelope), says(JSON.parse(earlier) as Envelope)]).then(
        ([now, then]) => now === then,
        () => false,
      );
    }),
  );
  return new Set(asked.filter((_, index) => same[index]));
}
