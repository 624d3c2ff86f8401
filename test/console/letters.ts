import { randomBytes } from "node:crypto";
import type { Place } from "./global-setup.ts";
import { type Caller, inDatabase } from "./stage.ts";

interface Seeded {
  key: string;
  payload: object;
  cause: string;
  error: string;
  reason?: string;
  /** The content of a message, in place of a message with an envelope. */
  plain?: object;
}

/** Dead letters of a producer's own queue, oldest first; no HTTP request creates them. Returns their ids. */
export async function letters({ tenant }: Caller, seeded: readonly Seeded[], at?: Place): Promise<string[]> {
  const now = Date.now();
  const ids = seeded.map(() => randomBytes(16).toString("hex"));
  await inDatabase((database) => {
    for (const [index, { key, payload, cause, error, reason = "invalid_payload", plain }] of seeded.entries()) {
      const at = now - (seeded.length - index) * 60_000;
      database
        .prepare(
          `INSERT INTO millrace_dead_letters (id, tenant_id, queue, message_type, idempotency_key, correlation_id, body, reason, error, attempts,
             first_at, first_attempt_at, last_attempt_at, captured_at, cause)
           VALUES (?, ?, 'gatherfeed-commands', 'research.requested', ?, 'spring', ?, ?, ?, 4, ?, ?, ?, ?, ?)`,
        )
        .run(
          ...[ids[index] ?? "", tenant, key, JSON.stringify(plain ?? envelope(tenant, key, payload))],
          reason,
          error,
          at,
          at,
          at,
          at,
          cause,
        );
    }
  }, at);
  return ids;
}

/** A message in the form in which a queue delivers it. */
function envelope(tenant: string, key: string, payload: object) {
  return {
    ...{ schema_version: 1, message_type: "research.requested", kind: "command", source: "shop", tenant_id: tenant },
    ...{ correlation_id: "spring", causation_id: "shop/7", idempotency_key: key, subject: `acme/${key}` },
    created_at: "2026-10-01T09:30:00.000Z",
    traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    payload_inline: payload,
  };
}
