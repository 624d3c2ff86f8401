import { messageId } from "../../contract/ids.ts";

/** A member of a job: an instance, a message that one of its steps emitted, or a dead letter. */
export interface JobNode {
  /** Its name within the job: an instance's id, an event's key, a command's digest, a letter's id. */
  node: string;
  kind: "instance" | "command" | "event" | "dead_letter";
  /** The type of the message; of an instance, the type of its command or event. */
  messageType: string | null;
  /** The idempotency key of the message; null for a removed instance. */
  key: string | null;
  /** The workflow of an instance, the queue of a letter; null for a message. */
  name: string | null;
  /** The status of an instance; `on_its_way` or `taken` for a message; the state of a letter; `gone` for a removed instance. */
  status: string;
  subject: string | null;
  /** When it was accepted, emitted or captured, in milliseconds since the epoch. Null for a removed instance. */
  at: number | null;
  /** The node that caused it. Null for a cause outside the job, which `causationId` names. */
  cause: string | null;
  causationId: string | null;
  /** The instance that emitted it or caused it, and the step. */
  fromInstance: string | null;
  step: string | null;
  /**
   * Milliseconds since its cause: from the message's creation to an instance's acceptance, or from the instance's acceptance to its
   * message.
   */
  latencyMs: number | null;
  /** The instances that a message starts, derived from its key. */
  leadsTo: { instanceId: string; status: string }[];
}

export interface Addressed {
  readonly kind: string | null;
  readonly messageType: string;
  readonly key: string;
  readonly causationId: string;
}

/** The name of a message within its job. An event's name is its key, which its consequences have as their cause. */
export function messageNode(tenantId: string, { kind, messageType, key, causationId }: Addressed): string {
  if (kind === "event") return key;
  return messageId({ tenant_id: tenantId, message_type: messageType, idempotency_key: key, causation_id: causationId });
}

/** The origin of a message: a step of an instance, an event of an instance, or a source outside. */
export function causeOf(tenantId: string, message: Addressed): Pick<JobNode, "cause" | "fromInstance" | "step"> {
  const [, emitter, label] = /^([0-9a-f]{32})\/(.+)$/s.exec(message.causationId) ?? [];
  if (emitter !== undefined && label !== undefined) {
    const step = label.replace(/( · generation \d+)?( · message \d+)?$/, "");
    return { cause: messageNode(tenantId, message), fromInstance: emitter, step };
  }
  const [, teller] = /^([0-9a-f]{32})\.[0-9a-f]{16}$/.exec(message.causationId) ?? [];
  return { cause: teller === undefined ? null : message.causationId, fromInstance: teller ?? null, step: null };
}
