import { codeOf, type EngineEnv, type Envelope, enqueueOne, logLine, messageOf, newTrace } from "millrace";
import type { Catalog } from "millrace/worker";
import { ParcelFollow } from "./parcel.ts";

type Old = { parcel?: string } | null;

/** What is refused however often it comes. All else is trouble of the moment, or a mistake of the deployment. */
const FOR_GOOD: readonly unknown[] = ["invalid_payload", "idempotency_key_reused"];
const by = { tenantId: "acme", source: "old-parcels" };

/** The consumer of the old queue: each of its messages is a command, by the key that it has always had. */
export async function takeOver(batch: MessageBatch<Old>, env: EngineEnv & { PARCEL_COMMANDS: Queue }, app: Catalog): Promise<void> {
  for (const message of batch.messages) {
    const command = commandOf(message);
    try {
      await enqueueOne(env, app, by, command).catch(async (error) => {
        if (!FOR_GOOD.includes(codeOf(error))) throw error;
        // Its own consumer refuses it, too, and there it becomes a dead letter: of this tenant, type and key.
        await env.PARCEL_COMMANDS.send(inEnvelope(message, command));
      });
      message.ack();
    } catch (error) {
      logLine("warn", { log: "old_queue", id: message.id, error: messageOf(error) });
      message.retry({ delaySeconds: 30 });
    }
  }
}

function commandOf({ id, body }: Message<Old>) {
  // The engine checks the payload as it is: the type here is only a claim.
  const payload = (typeof body === "object" ? { ...body, parcel_id: body?.parcel } : body) as { parcel_id: string };
  return { command: ParcelFollow, payload, idempotencyKey: String(body?.parcel || id) };
}

function inEnvelope({ id, timestamp }: Message, { command, payload, idempotencyKey: key }: ReturnType<typeof commandOf>): Envelope {
  return {
    ...{ kind: "command", message_type: command.type, schema_version: 1, payload_inline: payload },
    ...{ tenant_id: by.tenantId, source: by.source, idempotency_key: key, subject: key },
    ...{ correlation_id: id, causation_id: `${by.source}/${id}`, created_at: timestamp.toISOString(), traceparent: newTrace() },
  };
}
