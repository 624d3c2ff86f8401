import type { EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { type Hide, type HideOf, hideAll, hideNothing, hiding } from "../contract/hide.ts";
import { unpackPayload } from "../contract/payload.ts";
import { redact } from "../contract/redact.ts";
import { among, sql } from "../contract/sql.ts";
import { pullIn } from "../pull/letters.ts";
import type { Operator } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import type { Catalog } from "../topology/catalog.ts";
import { type Marks, marksOf, type Typed } from "../topology/marks.ts";

/** Redaction by the sensitive fields of the deployment's definitions. */
export interface Redaction {
  payload(of: Typed, payload: unknown): unknown;
  /** Hides, in outputs and errors, the sensitive values of an instance's message and of the events that it received. */
  ofInstances(env: EngineEnv, by: Operator, ids: readonly string[]): Promise<HideOf>;
  /** A dead letter's redacted message, and the redaction of its error. */
  letter(queue: string, body: unknown): { body: unknown; hide: Hide };
}

export const REVEALED: Redaction = {
  payload: (_, payload) => payload,
  ofInstances: async () => () => hideNothing,
  letter: (_, body) => ({ body, hide: hideNothing }),
};

/** For a catalog without sensitive fields, the redaction reads and hides nothing. */
export function redactionOf(catalog: Catalog): Redaction {
  const marks = marksOf(catalog);
  if (marks === undefined) return REVEALED;
  const known = made.get(marks);
  if (known) return known;
  const redaction = redactionBy(marks);
  made.set(marks, redaction);
  return redaction;
}

const made = new WeakMap<Marks, Redaction>();

function redactionBy(marks: Marks): Redaction {
  const types = [...new Set(marks.marked.map(({ type }) => type))];

  /** The sensitive values of a message; "all" if the message's payload is missing. */
  async function withheldOf(env: EngineEnv, envelope: Envelope): Promise<readonly unknown[] | "all"> {
    const definition = marks.marked.find(({ type }) => type === envelope.message_type);
    if (definition === undefined) return [];
    const withheld: unknown[] = [];
    const note = (one: unknown) => void withheld.push(one);
    if (envelope.payload_ref === undefined) marks.payload(envelope, envelope.payload_inline, note);
    else {
      try {
        redact(definition.payload, await unpackPayload(env.PAYLOADS, definition, envelope), note);
      } catch {
        return "all";
      }
    }
    return withheld;
  }

  async function ofInstances(env: EngineEnv, { tenantId }: Operator, ids: readonly string[]): Promise<HideOf> {
    if (ids.length === 0) return () => hideNothing;
    const meant = among([...new Set(ids)]);
    const rows = await query<{ id: string; envelope: string }>(
      env.DB,
      sql`
        SELECT id, envelope FROM millrace_instances
        WHERE id IN ${meant} AND +tenant_id = ${tenantId} AND message_type IN ${among(types)} AND envelope IS NOT NULL
        UNION ALL
        SELECT w.instance_id, s.envelope FROM millrace_waits w JOIN millrace_signals s ON s.id = w.signal_id
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

  return {
    payload: (of, payload) => marks.payload(of, payload),
    ofInstances,
    // Messages of a pull queue have no definition in the catalog.
    letter: (queue, body) => (pullIn(queue) === undefined ? marks.message(queue, body) : { body, hide: hideNothing }),
  };
}
