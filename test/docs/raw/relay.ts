import type { RawEnv } from "./env.ts";
import type { CustomerWelcome } from "./messages.ts";

const BACK_OFF_MS = 60_000;

/** Sends the events of a command, or of all commands, that no consumer has confirmed. May send twice. */
export async function relay(env: RawEnv, commandId?: string): Promise<void> {
  const due = env.DB.prepare(
    `UPDATE outbox SET due_at = ?2 + ${BACK_OFF_MS} WHERE confirmed_at IS NULL AND (command_id = ?1 OR (?1 IS NULL AND due_at <= ?2)) RETURNING envelope`,
  ).bind(commandId ?? null, Date.now());
  const { results } = await due.all<{ envelope: string }>();
  for (let at = 0; at < results.length; at += 100) {
    await env.CUSTOMER_EVENTS.sendBatch(results.slice(at, at + 100).map(({ envelope }) => ({ body: JSON.parse(envelope) })));
  }
}

/** The statement that commits an event with its effect. Its id is the step's, so that a repeat is the same event. */
export function emit(
  env: RawEnv,
  cause: CustomerWelcome,
  commandId: string,
  step: string,
  type: string,
  payload: object,
): D1PreparedStatement {
  const id = `${commandId}/${step}/${type}`;
  const envelope = {
    ...cause,
    message_type: type,
    kind: "event",
    source: "workflow:welcome-customer",
    causation_id: `${commandId}/${step}`,
    idempotency_key: id,
    created_at: new Date().toISOString(),
    payload_inline: payload,
  };
  return env.DB.prepare("INSERT INTO outbox (id, command_id, envelope, due_at) VALUES (?1, ?2, ?3, ?4)").bind(
    id,
    commandId,
    JSON.stringify(envelope),
    Date.now(),
  );
}
