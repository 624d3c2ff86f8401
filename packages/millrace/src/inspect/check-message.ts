import type { EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { fingerprintOf } from "../contract/ids.ts";
import { assertKnownFields, decodePayload } from "../contract/message.ts";
import type { Operator } from "../store/actions.ts";
import { isSamePayload } from "../store/tombstones.ts";
import type { Catalog } from "../topology/catalog.ts";
import { findKey, type KeyHolder } from "./keys.ts";

export interface Draft {
  readonly kind: Envelope["kind"];
  readonly type: string;
  readonly payload: unknown;
  /** Default: the key that a command derives from its payload. */
  readonly idempotencyKey?: string | undefined;
}

export interface Checked {
  /** Null for an event without a key. Without a key, the event would not be accepted. */
  readonly key: string | null;
  readonly subject: string;
  /**
   * `new`: the key is free · `repeat`: an equal message has the key · `reused`: another payload has the key, so the message would be
   * refused.
   */
  readonly outcome: "new" | "repeat" | "reused";
  readonly holder: KeyHolder | undefined;
}

/**
 * Validates a message without storing it, and returns its key and the current holder of the key. Errors: `unknown_message_type`;
 * `invalid_payload` with every issue that a sender would get.
 */
export async function checkMessage(env: Pick<EngineEnv, "DB">, catalog: Catalog, by: Operator, draft: Draft): Promise<Checked> {
  const { kind, type, idempotencyKey } = draft;
  const workflow = kind === "command" ? catalog.performer(type) : undefined;
  const definition = workflow?.on ?? catalog.subscribers(type).event;
  const payload = decodePayload(definition, definition.version, draft.payload);
  assertKnownFields(definition, definition.version, draft.payload);
  const key = idempotencyKey ?? definition.key?.(payload) ?? null;
  const subject = definition.subject(payload);
  const names = workflow ? { workflows: [workflow.name], events: [] } : { workflows: [], events: [type] };
  const holder = key === null ? undefined : (await findKey(env, by, key, names)).holders[0];
  const outcome = holder === undefined ? "new" : isSamePayload(holder.fingerprint, fingerprintOf(payload)) ? "repeat" : "reused";
  return { key, subject, outcome, holder };
}
