import * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import { chosenName, MAX_KEY_CHARACTERS } from "../contract/chosen-name.ts";
import { fingerprintOf } from "../contract/ids.ts";
import { assertKnownFields, decodePayload } from "../contract/message.ts";
import type { Operator } from "../store/actions.ts";
import { isSamePayload } from "../store/tombstones.ts";
import type { Catalog } from "../topology/catalog.ts";
import { findKey, holderStatus } from "./keys.ts";

export const MessageDraft = z.strictObject({
  kind: z.enum(["command", "event"]).default("command"),
  type: z.string().min(1).max(100).describe("The type of the command or event, such as `content.publish`."),
  payload: z.unknown().describe("The payload, by the schema of the type."),
  idempotency_key: chosenName(MAX_KEY_CHARACTERS).optional().describe("Default: the key that the command derives from its payload."),
});

export const CheckedMessage = z.object({
  key: z.string().nullable().describe("The key; null for an event sent without its required `idempotency_key`."),
  subject: z.string().nullable(),
  outcome: z
    .enum(["new", "repeat", "reused", "refused"])
    .describe(
      [
        "`new`: the key is free. `repeat`: the same message was sent before, and a repeat starts nothing.",
        "`reused`: another payload has the key; the message would be refused. `refused`: the message is not valid.",
      ].join(" "),
    ),
  holder: z
    .object({ id: z.string(), status: holderStatus })
    .nullable()
    .describe("The holder of the key: an instance, the tombstone of one, or an event."),
});

/** Errors: `unknown_message_type`; `invalid_payload` with every issue that a sender would get. */
export async function checkMessage(
  env: Pick<EngineEnv, "DB">,
  catalog: Catalog,
  by: Operator,
  { kind, type, payload: said, idempotency_key }: z.output<typeof MessageDraft>,
): Promise<z.infer<typeof CheckedMessage>> {
  const workflow = kind === "command" ? catalog.performer(type) : undefined;
  const definition = workflow?.on ?? catalog.subscribers(type).event;
  const payload = decodePayload(definition, definition.version, said);
  assertKnownFields(definition, definition.version, said);
  const key = idempotency_key ?? definition.key?.(payload) ?? null;
  const subject = definition.subject(payload);
  const names = workflow ? { workflows: [workflow.name], events: [] } : { workflows: [], events: [type] };
  const [holder] = key === null ? [] : (await findKey(env, by, key, names)).holders;
  if (holder === undefined) return { key, subject, outcome: "new", holder: null };
  const { id, status, fingerprint } = holder;
  return { key, subject, outcome: isSamePayload(fingerprint, fingerprintOf(payload)) ? "repeat" : "reused", holder: { id, status } };
}
