import { address } from "../contract/address.ts";
import { type EngineEnv, queueBinding, workflowBinding } from "../contract/bindings.ts";
import { crashPoint } from "../contract/crash-points.ts";
import { codeOf, MillraceError } from "../contract/errors.ts";
import { digest } from "../contract/ids.ts";
import { type DraftOptions, decodePayload } from "../contract/message.ts";
import { dropPayload } from "../contract/payload.ts";
import { rowChunks, type Statement } from "../contract/sql.ts";
import { nextHop } from "../contract/trace.ts";
import { relay } from "../recorder/relay.ts";
import { batch as atomic } from "../store/retry.ts";
import type { Catalog } from "../topology/catalog.ts";
import { type Acceptance, acceptance, insertAccepted, outgoing, selectKnown } from "./accept.ts";

/** A command as somebody asks for it. */
export interface CommandRequest extends DraftOptions {
  type: string;
  payload: unknown;
  /** The version of the payload; default the present one. */
  schemaVersion?: number | undefined;
  /** Names the work; default what the command's own rule derives from the payload. 1 to 500 characters. */
  idempotencyKey?: string | undefined;
  /** Default a new one: this command begins a job. */
  correlationId?: string | undefined;
  causationId?: string | undefined;
  traceparent?: string | null | undefined;
}

/** Who asks, and for whom. */
export interface Requester {
  tenantId: string;
  source: string;
}

export interface Accepted {
  instanceId: string;
  /** True when the command had been accepted before: nothing new was started. */
  replayed: boolean;
  correlationId: string;
}

/**
 * Accepts commands: their rows are committed together in one round trip, then their messages are sent. An accepted command
 * runs even if this process dies before it is sent. Answers one result or error per request, in order; a refused one changes nothing.
 * `also` is committed with them, unless none of them is valid. Errors per item: `unknown_message_type`, `invalid_payload`, `idempotency_key_reused`,
 * and `config_invalid` for a workflow or queue that is not bound.
 */
export async function enqueue(
  env: EngineEnv,
  catalog: Catalog,
  by: Requester,
  requests: readonly CommandRequest[],
  also: readonly Statement[] = [],
): Promise<(Accepted | MillraceError)[]> {
  const prepared = await Promise.all(requests.map((request) => prepare(env, catalog, by, request).catch(asRefusal)));
  const acceptances = prepared.filter((one): one is Acceptance => !(one instanceof MillraceError));
  if (acceptances.length === 0) return prepared as MillraceError[];

  await crashPoint("A01 before accept commits");
  const answers = await atomic(env.DB, [
    ...also,
    ...rowChunks(acceptances).map(insertAccepted),
    selectKnown(acceptances.map(({ id }) => id)),
  ]);
  const known = new Map((answers.pop() as unknown as KnownRow[]).map((row) => [row.id, row]));
  const fresh = new Set(
    answers
      .slice(also.length)
      .flat()
      .map((row) => row.id),
  );
  await crashPoint("A03 accept committed, not enqueued");

  const toSend = [...new Map(acceptances.filter(({ id }) => fresh.has(id)).map((one) => [one.id, one])).values()];
  await relay(
    env,
    toSend.map((one) => outgoing(env.MILLRACE_KEY, one)),
  );
  await dropUnneeded(env, acceptances, known);
  await crashPoint("A02 accept committed, not answered");
  return prepared.map((one) => (one instanceof MillraceError ? one : answer(one, fresh, known.get(one.id))));
}

async function prepare(env: EngineEnv, catalog: Catalog, by: Requester, request: CommandRequest): Promise<Acceptance> {
  const workflow = catalog.performer(request.type);
  const { on: definition } = workflow;
  // What nobody could start is refused here, where somebody reads the answer.
  workflowBinding(env, workflow.name);
  queueBinding(env, definition.queue.name);
  const payload = decodePayload(definition, request.schemaVersion ?? definition.version, request.payload);
  const key = request.idempotencyKey ?? definition.key?.(payload) ?? "";
  const name = digest("request", by.tenantId, workflow.name, key);
  const envelope = await address(env.PAYLOADS, definition.from(payload), {
    tenantId: by.tenantId,
    source: by.source,
    correlationId: request.correlationId ?? crypto.randomUUID(),
    causationId: request.causationId ?? `request/${crypto.randomUUID()}`,
    traceparent: nextHop(request.traceparent),
    idempotencyKey: key,
    owner: name,
  });
  return acceptance(workflow.name, envelope, definition.queue.name, request.delaySeconds);
}

/** The first of equal requests is the new one; the others, also in the same batch, are told that it is known. */
function answer(one: Acceptance, fresh: Set<unknown>, row: KnownRow | undefined): Accepted | MillraceError {
  if (row?.fingerprint !== one.fingerprint) {
    return new MillraceError(
      "idempotency_key_reused",
      `The key "${one.envelope.idempotency_key}" belongs to an earlier ${one.envelope.message_type} with another payload. Give new work a key of its own; to repeat the old work, send the old payload.`,
      {
        issues: [{ path: "idempotency_key", message: "is taken by another payload" }],
      },
    );
  }
  return { instanceId: one.id, replayed: !fresh.delete(one.id), correlationId: row.correlation_id ?? one.envelope.correlation_id };
}

/** A repeat of a command that has ended stored its payload again for nobody. */
async function dropUnneeded(env: EngineEnv, acceptances: readonly Acceptance[], known: ReadonlyMap<string, KnownRow>): Promise<void> {
  const unneeded = acceptances.filter(({ id }) => ["complete", "pruned"].includes(known.get(id)?.status ?? ""));
  await Promise.all(unneeded.map(({ envelope }) => dropPayload(env.PAYLOADS, envelope)));
}

interface KnownRow {
  id: string;
  fingerprint: string;
  status: string;
  correlation_id: string | null;
}

function asRefusal(error: unknown): MillraceError {
  if (error instanceof MillraceError && codeOf(error) !== "invariant") return error;
  throw error;
}
