import type { RawEnv } from "./env.ts";
import { start, takeIn } from "./intake.ts";
import { CustomerWelcome, CustomerWelcomed, commandId, hash, Malformed, read } from "./messages.ts";

/** Each message separately: done is acknowledged, malformed is captured at once, the rest comes back later. */
export async function consume(batch: MessageBatch, env: RawEnv): Promise<void> {
  if (batch.queue.endsWith("-dlq")) return captureExhausted(batch, env);
  const handle = batch.queue === "customer-commands" ? takeCommand : takeEvent;
  await Promise.all(
    batch.messages.map(async (message) => {
      try {
        await handle(message.body, env).catch((error) => {
          if (error instanceof Malformed) return capture(env, batch.queue, message, error.reason, error.message);
          throw error;
        });
        message.ack();
      } catch (error) {
        message.retry({ delaySeconds: Math.min(30 * 2 ** (message.attempts - 1), 600) });
        console.warn(JSON.stringify({ log: "delivery", queue: batch.queue, attempt: message.attempts, error: String(error) }));
      }
    }),
  );
}

async function takeCommand(body: unknown, env: RawEnv): Promise<void> {
  const command = read(CustomerWelcome, body);
  if (await takeIn(env, command)) await start(env, command);
}

/** The event has no consequences yet: accepting it confirms it, so that it is not sent again. */
async function takeEvent(body: unknown, env: RawEnv): Promise<void> {
  const { idempotency_key } = read(CustomerWelcomed, body);
  await env.DB.prepare("UPDATE outbox SET confirmed_at = coalesce(confirmed_at, ?2) WHERE id = ?1").bind(idempotency_key, Date.now()).run();
}

async function capture(env: RawEnv, queue: string, message: Message, reason: string, error: string): Promise<void> {
  const body = message.body as { tenant_id?: unknown } | null;
  const tenant = typeof body?.tenant_id === "string" ? body.tenant_id : null;
  await env.DB.prepare(
    `INSERT INTO dead_letters (id, tenant_id, queue, body, reason, error, captured_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (id) DO NOTHING`,
  )
    .bind(hash([queue, message.id]), tenant, queue, JSON.stringify(message.body) ?? "null", reason, error.slice(0, 1000), Date.now())
    .run();
}

/** An exhausted message, with the queue it came from; a command that never started is dead until it is replayed. */
async function captureExhausted(batch: MessageBatch, env: RawEnv): Promise<void> {
  for (const message of batch.messages) {
    try {
      await capture(env, batch.queue.replace(/-dlq$/, ""), message, "exhausted", "No consumer could finish this message.");
      const command = CustomerWelcome.safeParse(message.body).data;
      if (command) {
        await env.DB.prepare("UPDATE commands SET status = 'dead', check_at = NULL WHERE id = ?1 AND status IN ('accepted', 'queued')")
          .bind(commandId(command))
          .run();
      }
      message.ack();
    } catch {
      message.retry({ delaySeconds: 60 });
    }
  }
}
