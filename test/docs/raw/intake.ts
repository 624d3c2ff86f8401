import type { RawEnv } from "./env.ts";
import { type CustomerWelcome, commandId, fingerprint, Malformed } from "./messages.ts";

/** Commits a command's row, or finds the existing one. Returns which, and refuses a key that another payload uses. */
export async function accept(env: RawEnv, command: CustomerWelcome): Promise<{ id: string; replayed: boolean }> {
  const id = commandId(command);
  const [inserted, known] = await env.DB.batch<{ fingerprint: string }>([
    env.DB.prepare(
      `INSERT INTO commands (id, tenant_id, fingerprint, envelope, status, check_at) VALUES (?1, ?2, ?3, ?4, 'accepted', ?5) ON CONFLICT (id) DO NOTHING RETURNING id`,
    ).bind(id, command.tenant_id, fingerprint(command), JSON.stringify(command), Date.now() + 60_000),
    env.DB.prepare("SELECT fingerprint FROM commands WHERE id = ?1").bind(id),
  ]);
  if (known?.results[0]?.fingerprint !== fingerprint(command)) throw reused(command);
  const fresh = inserted?.results.length === 1;
  // A message lost here is sent again by the sweep.
  if (fresh) await env.CUSTOMER_COMMANDS.send(command).catch(() => undefined);
  return { id, replayed: !fresh };
}

/** Accepts a delivered command. Returns whether its instance is still to be created. */
export async function takeIn(env: RawEnv, command: CustomerWelcome): Promise<boolean> {
  const row = await env.DB.prepare(
    `INSERT INTO commands (id, tenant_id, fingerprint, envelope, status, deliveries, check_at) VALUES (?1, ?2, ?3, ?4, 'queued', 1, ?5)
     ON CONFLICT (id) DO UPDATE SET deliveries = deliveries + 1, status = iif(status = 'accepted', 'queued', status)
     WHERE fingerprint = excluded.fingerprint RETURNING status`,
  )
    .bind(commandId(command), command.tenant_id, fingerprint(command), JSON.stringify(command), Date.now() + 60_000)
    .first<{ status: string }>();
  if (!row) throw reused(command);
  return row.status === "queued";
}

/** Creates a command's instance. An existing one is a success. */
export async function start(env: RawEnv, command: CustomerWelcome): Promise<void> {
  try {
    await env.WELCOME_CUSTOMER.create({ id: commandId(command), params: command });
  } catch (error) {
    if (!String(error).includes("already_exists")) throw error;
  }
}

function reused({ idempotency_key }: CustomerWelcome): Malformed {
  return new Malformed("idempotency_key_reused", `The key "${idempotency_key}" belongs to an earlier command with another payload.`);
}
