import * as z from "zod";
import { messageId } from "../../contract/ids.ts";
import { timestamp } from "../../contract/row.ts";
import { INSTANCE_STATUSES } from "../../store/instances/status.ts";

/** A member of a job: an instance, a message that one of its steps emitted, or a dead letter. */
export const JobNode = z
  .object({
    node: z.string().meta({ description: "The id of the node in the job; `cause` of another node refers to it." }),
    kind: z.enum(["instance", "command", "event", "dead_letter"]),
    message_type: z.string().nullable().meta({ description: "For an instance: the message that started it." }),
    idempotency_key: z.string().nullable(),
    name: z.string().nullable().meta({ description: "The workflow of an instance or the queue of a dead letter." }),
    status: z.string().meta({
      description: "The status of the instance or dead letter. For a message: `on_its_way` or `taken`. `gone`: a cause that was removed.",
    }),
    subject: z.string().nullable(),
    at: timestamp.nullable().meta({ description: "When the node was accepted, emitted or captured; null for a removed node." }),
    cause: z.string().nullable().meta({ description: "The node that caused this node (the edge). Null if the cause is not in the job." }),
    causation_id: z.string().nullable().meta({ description: "The cause as named in the message." }),
    from_instance: z
      .string()
      .nullable()
      .meta({ description: "The instance that emitted the message, or the message that led to the instance." }),
    step: z.string().nullable().meta({ description: "The step that emitted the message." }),
    latency_ms: z
      .int()
      .nullable()
      .meta({ description: "Milliseconds between the cause and the node; for an instance, since its message was created." }),
    leads_to: z
      .array(z.object({ instance_id: z.string(), status: z.enum([...INSTANCE_STATUSES, "pruned"]) }))
      .meta({ description: "For a message: the instances that it started, by its key, including `pruned` ones." }),
  })
  .meta({ id: "JobNode" });
export type JobNode = z.infer<typeof JobNode>;

export interface Addressed {
  readonly kind: string | null;
  readonly message_type: string;
  readonly idempotency_key: string;
  readonly causation_id: string;
}

/** The name of a message within its job. The name of an event is its key, which its consequences record as their cause. */
export function messageNode(tenantId: string, { kind, ...message }: Addressed): string {
  return kind === "event" ? message.idempotency_key : messageId({ tenant_id: tenantId, ...message });
}

/** The origin of a message: a step of an instance, an event that an instance emitted, or a source outside the deployment. */
export function causeOf(tenantId: string, message: Addressed): Pick<JobNode, "cause" | "from_instance" | "step"> {
  const [, emitter, label] = /^([0-9a-f]{32})\/(.+)$/s.exec(message.causation_id) ?? [];
  if (emitter !== undefined && label !== undefined) {
    const step = label.replace(/( · generation \d+)?( · message \d+)?$/, "");
    return { cause: messageNode(tenantId, message), from_instance: emitter, step };
  }
  const [, teller] = /^([0-9a-f]{32})\.[0-9a-f]{16}$/.exec(message.causation_id) ?? [];
  return { cause: teller === undefined ? null : message.causation_id, from_instance: teller ?? null, step: null };
}
