import type { EngineEnv } from "../../contract/bindings.ts";
import type { Envelope } from "../../contract/envelope.ts";
import { MillraceError } from "../../contract/errors.ts";
import { fingerprintOf } from "../../contract/ids.ts";
import { unpackPayload } from "../../contract/payload.ts";
import { among, sql } from "../../contract/sql.ts";
import { query } from "../../store/d1/retry.ts";
import type { Catalog } from "../../topology/catalog.ts";
import type { Acceptance } from "./accept.ts";

/** A key that belongs to an earlier message with another payload: running this one would do what nobody asked under that key. */
export function keyReused({ idempotency_key, message_type }: Pick<Envelope, "idempotency_key" | "message_type">): MillraceError {
  return new MillraceError(
    "idempotency_key_reused",
    `The key "${idempotency_key}" belongs to an earlier ${message_type} with another payload. Give new work a key of its own; to repeat the old work, send the old payload.`,
    { issues: [{ path: "idempotency_key", message: "is taken by another payload" }] },
  );
}

/**
 * Of messages whose key is taken under another fingerprint, those that ask for the same all the same. A deployment that raised a payload's
 * version, or gave a field a default, makes another payload of the same request: read by today's definition, both say the same. Asked
 * only where fingerprints differ; a stored payload that is gone, or cannot be read any more, is another one.
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
