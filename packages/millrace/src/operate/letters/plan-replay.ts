import * as z from "zod";
import type { EngineEnv } from "../../contract/bindings.ts";
import { codeOf, MillraceError, messageOf } from "../../contract/errors.ts";
import { instanceId } from "../../contract/ids.ts";
import { payloadFingerprint } from "../../contract/payload.ts";
import { queuesOf } from "../../contract/queue.ts";
import { redacted } from "../../contract/row.ts";
import { type DeadLetterReader, type FullDeadLetter, getDeadLetter } from "../../inspect/dead-letters.ts";
import { Fingerprint, signedFingerprint } from "../../inspect/keys.ts";
import { envelopeIn, textField } from "../../intake/letters/letter.ts";
import { pullIn } from "../../pull/keep-letter.ts";
import { query } from "../../store/d1/retry.ts";
import { selectKnown } from "../../store/instances/keys.ts";
import { INSTANCE_STATUSES } from "../../store/instances/status.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { correctionOf } from "../as-stored.ts";
import { operatorBy, readAgain } from "./read-again.ts";
import { pulledIsUnchanged } from "./replay.ts";

/** The row of a replay's dry run, except the field `refused`. */
export const ReplayPlanRow = z.object({
  outcome: z.enum(["starts", "duplicate", "follows", "sent", "refused", "settled"]).meta({
    description:
      "`starts`: starts an instance. `duplicate`: an instance of the same work has the key, and nothing is sent. `follows`: the event goes to its routes. `sent`: goes back to a pull queue. `refused`: the dead letter remains open; `refused` has the reason. `settled`: it was settled before.",
  }),
  why: z.string().meta(redacted),
  queue: z.string().nullable().meta({ description: "The target queue." }),
  identity: z
    .object({
      tenant_id: z.string().meta(redacted),
      message_type: z.string().meta(redacted),
      idempotency_key: z.string().meta(redacted),
      subject: z.string().meta(redacted),
      fingerprint: Fingerprint,
    })
    .nullable()
    .meta({ description: "The identity of the message; null if it is not readable." }),
  instance: z
    .object({ id: z.string(), status: z.enum([...INSTANCE_STATUSES, "pruned"]) })
    .nullable()
    .meta({ description: "For a command: the instance that holds the key; null if the key is free." }),
});

/** Result of a dry run of a replay. */
export interface ReplayPlan extends z.infer<typeof ReplayPlanRow> {
  /** The error of a refused replay; null otherwise. */
  readonly refused: MillraceError | null;
}

/**
 * Dry run of a replay with the current catalog, and with the corrected body if the request contains a correction. Errors:
 * `dead_letter_not_found`; `unavailable` if the state cannot be read.
 */
export async function planReplay(
  env: EngineEnv,
  catalog: Catalog,
  by: DeadLetterReader,
  id: string,
  correction: unknown,
): Promise<ReplayPlan> {
  const letter = await getDeadLetter(env, by, id);
  return planOf(env, catalog, by, letter, correctionOf(catalog, letter, correction));
}

export async function planOf(
  env: EngineEnv,
  catalog: Catalog,
  by: DeadLetterReader,
  letter: FullDeadLetter,
  correction?: unknown,
): Promise<ReplayPlan> {
  const body = correction === undefined ? letter.body : correction;
  const identity = identityIn(env, body);
  const known = { refused: null, queue: letter.queue, identity, instance: null };
  if (letter.state !== "open") return { ...known, outcome: "settled", why: `The dead letter is already ${letter.state}.` };
  const pulled = pullIn(letter.queue);
  if (pulled !== undefined) return planPulled(pulled, correction);
  try {
    const { command, queue } = await readAgain(env, catalog, operatorBy(by), letter, correction);
    if (command === null) return { ...known, queue, outcome: "follows", why: "The event is delivered to its routes." };
    const instance = await holderOf(env, command.id);
    const starts = instance === null || instance.status === "dead";
    const why = starts
      ? "An instance starts under the message's key."
      : `The message is a duplicate: its instance is already ${instance.status}.`;
    return { ...known, queue, instance, outcome: starts ? "starts" : "duplicate", why };
  } catch (error) {
    if (!(error instanceof MillraceError) || codeOf(error) === "unavailable") throw error;
    const instance = await holderOf(env, keyOf(catalog, body) ?? letter.instance_id ?? undefined);
    return { ...known, queue: null, instance, outcome: "refused", why: messageOf(error), refused: error };
  }
}

function planPulled(queue: string, correction: unknown): ReplayPlan {
  const known = { refused: null, queue, identity: null, instance: null };
  if (correction === undefined) return { ...known, outcome: "sent", why: "The message returns to the end of its queue." };
  const refused = pulledIsUnchanged();
  return { ...known, outcome: "refused", why: refused.message, refused };
}

function identityIn(env: EngineEnv, body: unknown): ReplayPlan["identity"] {
  const envelope = envelopeIn(body);
  if (envelope === undefined) return null;
  const { tenant_id, message_type, idempotency_key, subject } = envelope;
  const fingerprint = signedFingerprint(env, tenant_id, payloadFingerprint(envelope));
  return { tenant_id, message_type, idempotency_key, subject, fingerprint };
}

function keyOf(catalog: Catalog, body: unknown): string | undefined {
  const envelope = envelopeIn(body);
  const workflow = catalog.workflows.find(({ on }) => on.kind === "command" && on.type === envelope?.message_type)?.name;
  if (envelope?.kind !== "command" || workflow === undefined) return undefined;
  return instanceId(envelope.tenant_id, workflow, envelope.idempotency_key);
}

async function holderOf(env: EngineEnv, id: string | undefined): Promise<ReplayPlan["instance"]> {
  if (id === undefined) return null;
  const [row] = await query<NonNullable<ReplayPlan["instance"]>>(env.DB, selectKnown([id]));
  return row ? { id: row.id, status: row.status } : null;
}

export interface KnownMessage {
  readonly type: string;
  readonly kind: "command" | "event";
  readonly version: number;
  readonly queues: readonly string[];
  readonly workflow: string | null;
}

/** The type of a dead letter's message in the current catalog; null if the type is unknown. */
export function knownMessage(catalog: Catalog, { body }: Pick<FullDeadLetter, "body">): KnownMessage | null {
  const type = textField(body, "message_type");
  const kinds = type === null ? [] : catalog.kindsOf(type);
  const kind = kinds.find((one) => one === textField(body, "kind")) ?? kinds[0];
  if (type === null || kind === undefined) return null;
  const { definition, workflow } =
    kind === "command"
      ? { definition: catalog.performer(type).on, workflow: catalog.performer(type).name }
      : { definition: catalog.subscribers(type).event, workflow: null };
  return { type, kind, version: definition.version, queues: queuesOf(definition.queue), workflow };
}
