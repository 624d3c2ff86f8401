import type { EngineEnv } from "../contract/bindings.ts";
import { type Envelope, envelopeSchema } from "../contract/envelope.ts";
import { type Hide, hideAll, hideNothing, hiding } from "../contract/hide.ts";
import type { MessageDefinition } from "../contract/message.ts";
import { unpackPayload } from "../contract/payload.ts";
import { holdsMarks, REDACTED, redact } from "../contract/redact.ts";
import { among, sql } from "../contract/sql.ts";
import { pullIn } from "../pull/keep-letter.ts";
import type { Operator } from "../store/actions.ts";
import { query } from "../store/retry.ts";
import type { Catalog } from "../topology/catalog.ts";
import { routesOf, startedBy } from "../topology/consumer.ts";

/** Of a message what says how its payload is read: as of the present version, unless it says another. */
type Typed = Pick<Envelope, "message_type"> & Partial<Pick<Envelope, "schema_version">>;

/** What people may see of messages and of what came of them, by the marks of a deployment's definitions. */
export interface Redaction {
  /** A payload by the definition of its type. */
  payload(of: Typed, payload: unknown): unknown;
  /** Hides what is withheld of the messages that instances began with and have waited for, by the instance's id: in outputs and errors. */
  ofInstances(env: EngineEnv, by: Operator, ids: readonly string[]): Promise<(id: string) => Hide>;
  /** A dead letter's message as it came, and what hides in its error what is withheld there. */
  letter(queue: string, body: unknown): { body: unknown; hide: Hide };
}

/** Shows everything. */
export const REVEALED: Redaction = {
  payload: (_, payload) => payload,
  ofInstances: async () => () => hideNothing,
  letter: (_, body) => ({ body, hide: hideNothing }),
};

/** By what the definitions of a catalog mark; where none marks anything, everything is shown, and nothing is read for that. */
export function redactionOf(catalog: Catalog): Redaction {
  const known = made.get(catalog);
  if (known) return known;
  const redaction = definitionsOf(catalog).some(isMarked) ? marked(catalog) : REVEALED;
  made.set(catalog, redaction);
  return redaction;
}

const made = new WeakMap<Catalog, Redaction>();

function definitionsOf({ consumers }: Catalog): MessageDefinition[] {
  return [...startedBy(consumers).map(({ on }) => on), ...routesOf(consumers).map(({ event }) => event)];
}

const isMarked = ({ payload }: MessageDefinition) => holdsMarks(payload);

function marked(catalog: Catalog): Redaction {
  const byType = Map.groupBy(definitionsOf(catalog), ({ type }) => type);

  function payload({ message_type, schema_version }: Typed, value: unknown, withheld: (one: unknown) => void = () => {}): unknown {
    const definitions = byType.get(message_type);
    // What an older version called its fields is not known.
    const isUnknown =
      definitions === undefined || definitions.some((one) => isMarked(one) && (schema_version ?? one.version) < one.version);
    if (!isUnknown) return definitions.reduce((shown, one) => redact(one.payload, shown, withheld), value);
    if (value === null || value === undefined) return value;
    withheld(value);
    return REDACTED;
  }

  /** Notes what is withheld of a message; "all" where that cannot be told, because its payload is gone. */
  async function withheldOf(env: EngineEnv, envelope: Envelope): Promise<readonly unknown[] | "all"> {
    const definition = byType.get(envelope.message_type)?.find(isMarked);
    if (definition === undefined) return [];
    const withheld: unknown[] = [];
    const note = (one: unknown) => void withheld.push(one);
    if (envelope.payload_ref === undefined) payload(envelope, envelope.payload_inline, note);
    else {
      try {
        redact(definition.payload, await unpackPayload(env.PAYLOADS, definition, envelope), note);
      } catch {
        return "all";
      }
    }
    return withheld;
  }

  async function ofInstances(env: EngineEnv, { tenantId }: Operator, ids: readonly string[]): Promise<(id: string) => Hide> {
    const types = [...byType].flatMap(([type, definitions]) => (definitions.some(isMarked) ? [type] : []));
    const meant = among([...new Set(ids)]);
    const rows = await query<{ id: string; envelope: string }>(
      env.DB,
      sql`
        SELECT id, envelope FROM instances
        WHERE id IN ${meant} AND +tenant_id = ${tenantId} AND message_type IN ${among(types)} AND envelope IS NOT NULL
        UNION ALL
        SELECT w.instance_id, s.envelope FROM waits w JOIN signals s ON s.id = w.signal_id
        WHERE w.instance_id IN ${meant} AND w.type IN ${among(types)} AND +s.tenant_id = ${tenantId}`,
    );
    const said = await Promise.all(rows.map(async ({ id, envelope }) => ({ id, withheld: await withheldOf(env, JSON.parse(envelope)) })));
    const hides = new Map<string, Hide>();
    for (const [id, parts] of Map.groupBy(said, (one) => one.id)) {
      const withheld = parts.map((one) => one.withheld);
      hides.set(id, withheld.some((one) => one === "all") ? hideAll : hiding(withheld.flat()));
    }
    return (id) => hides.get(id) ?? hideNothing;
  }

  /** A message that may be anything. What no envelope has is withheld with the payload: it may be the same under a wrong name. */
  function letter(queue: string, body: unknown): { body: unknown; hide: Hide } {
    if (!mayHoldMarks(catalog, queue, body)) return { body, hide: hideNothing };
    if (typeof body !== "object" || body === null || Array.isArray(body)) return { body: REDACTED, hide: hideAll };
    const said = body as Record<string, unknown>;
    const withheld: unknown[] = [];
    const note = (one: unknown) => void withheld.push(one);
    const { message_type: type, schema_version: version } = said;
    const of = { message_type: typeof type === "string" ? type : "", schema_version: typeof version === "number" ? version : 0 };
    const shown = Object.entries(said).map(([name, value]) => {
      if (name === "payload_inline") return [name, payload(of, value, note)];
      if (isOfEnvelope(name, value)) return [name, value];
      note(value);
      return [name, REDACTED];
    });
    return { body: Object.fromEntries(shown), hide: hiding(withheld) };
  }

  return { payload, ofInstances, letter };
}

/** Whether a field is the envelope's own. A text of a wrong form is shown; what has another shape may be the payload under a wrong name. */
function isOfEnvelope(name: string, value: unknown): boolean {
  if (!Object.hasOwn(envelopeSchema.shape, name)) return false;
  return typeof value !== "object" || envelopeSchema.shape[name as keyof typeof envelopeSchema.shape].safeParse(value).success;
}

/**
 * Whether a letter's message may hold something marked: its type's definition does; or nobody knows its type, and a definition of those that
 * travel on its queue does. What is on a pull queue has no definition.
 */
function mayHoldMarks(catalog: Catalog, queue: string, body: unknown): boolean {
  if (pullIn(queue) !== undefined) return false;
  const definitions = definitionsOf(catalog);
  const type = typeof body === "object" && body !== null ? (body as Record<string, unknown>).message_type : undefined;
  const own = definitions.filter((one) => one.type === type);
  if (own.length > 0) return own.some(isMarked);
  const consumer = catalog.consumers.find((one) => one.queue.name === queue);
  return consumer === undefined || definitionsOf({ ...catalog, consumers: [consumer] }).some(isMarked);
}
