import { type EngineEnv, type Envelope, enqueueOne, errors, logLine, traces } from "millrace";
import type { Catalog } from "millrace/worker";
import { ParcelFollow } from "./parcel.ts";

type Old = { parcel?: string } | null;

/** A message with one of these errors is refused each time. Any other error is temporary, or a mistake of the deployment. */
const FOR_GOOD: readonly unknown[] = ["invalid_payload", "idempotency_key_reused"];
const by = { tenantId: "acme", source: "old-parcels" };

/** The consumer of the old queue: makes a command of each message, with the key of the old message. */
export async function takeOver(batch: MessageBatch<Old>, env: EngineEnv & { PARCEL_COMMANDS: Queue }, app: Catalog): Promise<void> {
  for (const message of batch.messages) {
    const command = commandOf(message);
    try {
      await enqueueOne(env, app, by, command).catch(async (error) => {
        if (!FOR_GOOD.includes(errors.codeOf(error))) throw error;
        // The consumer of the command refuses it too, and makes it a dead letter of this tenant, type and key.
        await env.PARCEL_COMMANDS.send(inEnvelope(message, command));
      });
      message.ack();
    } catch (error) {
      logLine("warn", { log: "old_queue", id: message.id, error: errors.messageOf(error) });
      message.retry({ delaySeconds: 30 });
    }
  }
}

function commandOf({ id, body }: Message<Old>) {
  // The engine validates the payload, so the cast is safe.
  const payload = (typeof body === "object" ? { ...body, parcel_id: body?.parcel } : body) as { parcel_id: string };
  return { command: ParcelFollow, payload, idempotencyKey: String(body?.parcel || id) };
}

function inEnvelope({ id, timestamp }: Message, { command, payload, idempotencyKey: key }: ReturnType<typeof commandOf>): Envelope {
  return {
    ...{ kind: "command", message_type: command.type, schema_version: 1, payload_inline: payload },
    ...{ tenant_id: by.tenantId, source: by.source, idempotency_key: key, subject: key },
    ...{ correlation_id: id, causation_id: `${by.source}/${id}`, created_at: timestamp.toISOString(), traceparent: traces.begin() },
  };
}
