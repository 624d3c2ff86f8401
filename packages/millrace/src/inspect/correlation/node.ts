import { messageId } from "../../contract/ids.ts";

/** A member of a job: an instance, a message that one of its steps emitted, or a dead letter. */
export interface JobNode {
  /** The node's name within the job: an instance's id, an event's key, a command's digest, a dead letter's id. */
  node: string;
  kind: "instance" | "command" | "event" | "dead_letter";
  /** The type of the message. For an instance, the type of the command or event that started the instance. */
  messageType: string | null;
  /** The idempotency key of the message; null for a removed instance. */
  key: string | null;
  /** The workflow of an instance or the queue of a dead letter; null for a message. */
  name: string | null;
  /** The status of an instance; `on_its_way` or `taken` for a message; the state of a dead letter; `gone` for a removed instance. */
  status: string;
  subject: string | null;
  /**
   * When the instance was accepted, the message emitted or the dead letter captured, in milliseconds since the epoch; null for a removed
   * instance.
   */
  at: number | null;
  /** The node that caused this node; null for a cause outside the job, which `causationId` names. */
  cause: string | null;
  causationId: string | null;
  /** The instance that emitted this message or caused this instance, and the step. */
  fromInstance: string | null;
  step: string | null;
  /**
   * Milliseconds from the creation of a message to the acceptance of its instance, or from the acceptance of an instance to its message.
   */
  latencyMs: number | null;
  /** The instances that a message starts. The id of each instance is derived from the message's key. */
  leadsTo: { instanceId: string; status: string }[];
}

export interface Addressed {
  readonly kind: string | null;
  readonly messageType: string;
  readonly key: string;
  readonly causationId: string;
}

/** The name of a message within its job. The name of an event is its key, which its consequences record as their cause. */
export function messageNode(tenantId: string, { kind, messageType, key, causationId }: Addressed): string {
  if (kind === "event") return key;
  return messageId({ tenant_id: tenantId, message_type: messageType, idempotency_key: key, causation_id: causationId });
}

/** The origin of a message: a step of an instance, an event that an instance emitted, or a source outside the deployment. */
export function causeOf(tenantId: string, message: Addressed): Pick<JobNode, "cause" | "fromInstance" | "step"> {
  const [, emitter, label] = /^([0-9a-f]{32})\/(.+)$/s.exec(message.causationId) ?? [];
  if (emitter !== undefined && label !== undefined) {
    const step = label.replace(/( · generation \d+)?( · message \d+)?$/, "");
    return { cause: messageNode(tenantId, message), fromInstance: emitter, step };
  }
  const [, teller] = /^([0-9a-f]{32})\.[0-9a-f]{16}$/.exec(message.causationId) ?? [];
  return { cause: teller === undefined ? null : message.causationId, fromInstance: teller ?? null, step: null };
}
