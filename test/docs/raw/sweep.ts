import type { RawEnv } from "./env.ts";
import { start } from "./intake.ts";
import { CustomerWelcome, read } from "./messages.ts";
import { applyActions } from "./operate.ts";
import { relay } from "./relay.ts";

const CHECK_AGAIN_MS = 5 * 60_000;

/** Every minute: work that a crash left unfinished. Commands not accepted, events not confirmed, actions not executed. */
export async function sweep(env: RawEnv): Promise<void> {
  await applyActions(env);
  await relay(env);
  const { results } = await env.DB.prepare(
    `UPDATE commands SET check_at = ?1 + ${CHECK_AGAIN_MS} WHERE id IN (SELECT id FROM commands WHERE check_at <= ?1 LIMIT 100) RETURNING id, status, envelope`,
  )
    .bind(Date.now())
    .all<{ id: string; status: string; envelope: string }>();
  for (const { id, status, envelope } of results) {
    const command = read(CustomerWelcome, JSON.parse(envelope));
    if (status === "accepted") await env.CUSTOMER_COMMANDS.send(command);
    else if (status === "queued") await start(env, command);
    else await compare(env, id);
  }
}

/** An instance that the platform has ended without a notification. */
async function compare(env: RawEnv, id: string): Promise<void> {
  const { status, error } = await (await env.WELCOME_CUSTOMER.get(id)).status();
  if (status !== "errored" && status !== "terminated" && status !== "complete") return;
  await env.DB.prepare("UPDATE commands SET status = ?2, error = coalesce(error, ?3), check_at = NULL WHERE id = ?1 AND status = 'running'")
    .bind(id, status === "complete" ? "complete" : "errored", status === "complete" ? null : JSON.stringify({ message: String(error) }))
    .run();
}
