import { type Envelope, errors, MillraceError, texts, traces } from "millrace";
import { placed } from "millrace/worker";
import pRetry from "p-retry";
import {
  isKeptByMillrace,
  keptByMillrace,
  type Provenance,
  type RecordedFact,
  readFact,
  type StatedFact,
  traceFields,
} from "../../../messages/fact.ts";
import { forgottenAmong } from "../../contacts/forgotten.ts";
import { epochOf, type Feed, feedOf } from "./feeds.ts";
import { type Appended, fingerprintOfFact } from "./forgotten-facts.ts";
import type { Ledger, LedgerState } from "./ledger.ts";

/** The total time of the retries is longer than an object's restart, and shorter than the time that a caller waits. */
const RESTART = { retries: 4, minTimeout: 50, maxTimeout: 1000, randomize: true };

/** One entity's ledger. The ledger is created by its first fact. */
export function ledgerOf(env: Env, tenantId: string, entity: string): DurableObjectStub<Ledger> {
  return env.LEDGER.get(env.LEDGER.idFromName(`${tenantId}/${entity}`), placed(env));
}

/**
 * Appends facts to their ledgers, one call per ledger. Returns one result per fact, in order. The result is an error for a fact that does
 * not match its type, or whose ledger is unreachable. The call is repeatable. All facts are validated in this function, because every call
 * to a ledger uses this function. An invalid fact could never be sent.
 */
export async function appendEach(
  env: Env,
  from: Provenance,
  facts: readonly unknown[],
  stater: FactSource = {},
): Promise<(Appended | Error)[]> {
  const said = facts.map((fact, index) => readOne(fact, index, stater));
  const read = await withPseudonyms(env, from.tenant_id, said);
  const answers = read.map((one): Appended | Error => (one instanceof Error ? one : NOT_ASKED));
  const stated = read.flatMap((fact, index) => (fact instanceof Error ? [] : [{ fact, index }]));
  await Promise.all(
    [...Map.groupBy(stated, ({ fact }) => fact.entity)].map(async ([entity, group]) => {
      const facts = group.map(({ fact }) => fact);
      const fingerprints = group.map(({ fact, index }) => (fact === said[index] ? null : fingerprintOfFact(said[index] as StatedFact)));
      // A stub is unusable after its object has failed, so each attempt uses a new stub.
      const append = () => ledgerOf(env, from.tenant_id, entity).append(from, facts, fingerprints);
      const appended = await pRetry(append, { ...RESTART, shouldRetry: ({ error }) => errors.isTransient(error) }).catch(
        (error: Error) => error,
      );
      for (const [at, { index }] of group.entries()) answers[index] = appended instanceof Error ? appended : (appended[at] as Appended);
    }),
  );
  return answers;
}

/**
 * Replaces the ids of forgotten contacts in facts by pseudonyms. In this way the facts' amounts count, but no forgotten contact is
 * restored.
 */
async function withPseudonyms<One extends StatedFact | Error>(
  env: Env,
  tenantId: string,
  facts: readonly One[],
): Promise<(One | StatedFact)[]> {
  const namedBy = (one: One) =>
    one instanceof Error ? [] : Object.entries(one.payload).filter(([field]) => contactFields(one.type).includes(field));
  const named = facts.map(namedBy);
  const ids = [...new Set(named.flatMap((fields) => fields.flatMap(([, id]) => (typeof id === "string" ? [id] : []))))];
  const forgotten = await forgottenAmong(env, tenantId, ids);
  return facts.map((one, index) => {
    const fields = named[index]?.filter(([, id]) => forgotten.has(String(id))) ?? [];
    if (one instanceof Error || fields.length === 0) return one;
    return {
      ...one,
      payload: { ...one.payload, ...Object.fromEntries(fields.map(([field, id]) => [field, forgotten.get(String(id))])) },
    } as StatedFact;
  });
}

function contactFields(type: string): string[] {
  return type === "contact_merged" ? ["from", "into"] : ["contact"];
}

/** Placeholder for a result until the ledger responds. */
const NOT_ASKED = new Error("The ledger was not asked.");

/** The sender of facts. */
export interface FactSource {
  /** Returns the path of a fact in the request, for errors. The default path is `fact`. */
  pathOf?: (index: number) => string;
  /** True for an external caller, which cannot append to Millrace's own ledgers. */
  outside?: boolean;
}

function readOne(stated: unknown, index: number, { pathOf = () => "fact", outside = false }: FactSource): StatedFact | MillraceError {
  const path = pathOf(index);
  try {
    const fact = readFact(stated, path, { nul: !outside });
    if (outside && isKeptByMillrace(fact.entity)) throw keptByMillrace(`${path}.entity`);
    return fact;
  } catch (error) {
    if (error instanceof MillraceError) return error;
    throw error;
  }
}

/**
 * Appends facts to their ledgers. If a fact is refused, the function throws the error of the first refused fact, so that the caller's retry
 * repeats the call. The error is `invalid_payload` or the ledger's own error. Facts that were appended remain.
 */
export async function appendFacts(env: Env, from: Provenance, facts: readonly StatedFact[]): Promise<Appended[]> {
  return (await appendEach(env, from, facts)).map((answer) => {
    if (answer instanceof Error) throw answer;
    return answer;
  });
}

/** Reads the state of a ledger, and the ledger's facts after a position, oldest first. */
export async function readLedger(
  env: Env,
  tenantId: string,
  entity: string,
  { after, limit }: { after: number; limit: number },
): Promise<LedgerState & { facts: RecordedFact[] }> {
  const ledger = ledgerOf(env, tenantId, entity);
  const [state, facts] = await Promise.all([ledger.state(), ledger.read(after, limit)]);
  // A payload may contain values of the type `unknown`, which the types of RPC results do not allow.
  return { ...state, facts: facts as unknown as RecordedFact[] };
}

/** Creates the error for a fact whose name belongs to another fact. */
export function reusedName({ fact_id, entity }: Pick<StatedFact, "fact_id" | "entity">, path = "fact_id"): MillraceError {
  return new MillraceError(
    "idempotency_key_reused",
    `The ledger of ${entity} has a fact "${fact_id}" with other content. Give a new fact a new name; to correct the old one, send another fact.`,
    { issues: [{ path, message: "belongs to another fact" }] },
  );
}

/** Confirms facts that a queue's consumer has received, with one call for each ledger and epoch of a batch. */
export async function confirmFacts(env: Env, events: readonly Envelope[]): Promise<void> {
  const facts = events.filter(({ source }) => epochOf(source) !== undefined);
  const groups = Map.groupBy(facts, (fact) =>
    JSON.stringify([fact.tenant_id, fact.subject, feedOf(fact.message_type), epochOf(fact.source)]),
  );
  await Promise.all(
    [...groups].map(([group, confirmed]) => {
      const [tenantId, entity, feed, epoch] = JSON.parse(group) as [string, string, Feed, number];
      const sequences = confirmed.flatMap(({ sequence }) => sequence ?? []);
      return ledgerOf(env, tenantId, entity).confirm(feed, sequences, epoch);
    }),
  );
}

/** The provenance of a fact that results from a message. */
export function provenanceOf(envelope: Envelope): Provenance {
  return {
    tenant_id: envelope.tenant_id,
    ...traceFields(traces.nextHop(envelope)),
    correlation_id: envelope.correlation_id,
    causation_id: texts.beginning(envelope.idempotency_key, 300),
  };
}
