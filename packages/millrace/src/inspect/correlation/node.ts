import { messageId } from "../../contract/ids.ts";

/** A member of a job: an instance, a message that a step of one emitted, or a message that was given up. */
export interface JobNode {
  /** Names it within the job: an instance's id, an event's key, a command's digest, a letter's id. */
  node: string;
  kind: "instance" | "command" | "event" | "dead_letter";
  /** The type of the message: of an instance, the one that it was started with. */
  messageType: string | null;
  /** The idempotency key of the message; null for what is gone. */
  key: string | null;
  /** The workflow of an instance, the queue of a letter; null for a message. */
  name: string | null;
  /** Of an instance its own; `on_its_way` or `taken` of a message, a letter's state; `gone` for what retention has removed. */
  status: string;
  subject: string | null;
  /** Milliseconds since the epoch: accepted, emitted, captured. Null for what is gone. */
  at: number | null;
  /** The node that caused it. Null where that was somebody outside, as `causationId` says. */
  cause: string | null;
  causationId: string | null;
  /** The instance whose step emitted it, or what it came of; and that step. */
  fromInstance: string | null;
  step: string | null;
  /** Milliseconds since its cause: of an instance since its message was made, of a message since its instance was accepted. */
  latencyMs: number | null;
  /** Of a message: the instances that it starts, as far as its key says. */
  leadsTo: { instanceId: string; status: string }[];
}

/** What tells where a message came from. */
export interface Addressed {
  readonly kind: string | null;
  readonly messageType: string;
  readonly key: string;
  readonly causationId: string;
}

/** The name of a message within its job: an event is named by its key, which what follows from it says as its cause. */
export function messageNode(tenantId: string, { kind, messageType, key, causationId }: Addressed): string {
  if (kind === "event") return key;
  return messageId({ tenant_id: tenantId, message_type: messageType, idempotency_key: key, causation_id: causationId });
}

/** Where a message came from: a step of an instance, or an event of one; or from outside. */
export function causeOf(tenantId: string, message: Addressed): Pick<JobNode, "cause" | "fromInstance" | "step"> {
  const [, emitter, label] = /^([0-9a-f]{32})\/(.+)$/s.exec(message.causationId) ?? [];
  if (emitter !== undefined && label !== undefined) {
    const step = label.replace(/( · generation \d+)?( · message \d+)?$/, "");
    return { cause: messageNode(tenantId, message), fromInstance: emitter, step };
  }
  const [, teller] = /^([0-9a-f]{32})\.[0-9a-f]{16}$/.exec(message.causationId) ?? [];
  return { cause: teller === undefined ? null : message.causationId, fromInstance: teller ?? null, step: null };
}
