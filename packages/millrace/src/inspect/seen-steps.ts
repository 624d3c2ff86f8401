import type { EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { fragment, sql } from "../contract/sql.ts";
import type { Operator } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import type { RecordedClass } from "../store/inbox/classes.ts";

/** Instances of the tenant, the newest, whose steps are looked at. */
export const SEEN_INSTANCES = 200;
/** Entries of one of them that are read. */
const READ_ENTRIES = 50;

/** What instances of a workflow have done lately: code says only as it runs which steps it takes. */
export interface Seen {
  /** Guarded steps, in the order that they were taken. */
  readonly steps: { readonly name: string; readonly class: RecordedClass }[];
  /** Messages that these emitted. */
  readonly emits: { readonly kind: Envelope["kind"]; readonly type: string }[];
}

const ENTRIES = fragment(`(SELECT step, class, position, messages FROM millrace_inbox
  WHERE millrace_inbox.instance_id = i.id LIMIT ${READ_ENTRIES})`);

/** What the tenant's newest instances did, by their workflow: their guarded steps, and what these emitted. Nothing of anybody else's. */
export async function seenSteps(env: Pick<EngineEnv, "DB">, { tenantId }: Operator): Promise<ReadonlyMap<string, Seen>> {
  const rows = await query(
    env.DB,
    sql`
      SELECT i.workflow, (
        SELECT json_group_array(json_object('step', e.step, 'class', e.class, 'position', e.position, 'emits', json((
          SELECT json_group_array(DISTINCT m.value->>'kind' || ' ' || (m.value->>'message_type')) FROM json_each(e.messages) m
          WHERE m.value->>'left_out' IS NULL))))
        FROM ${ENTRIES} e) AS entries
      FROM (SELECT id, workflow FROM millrace_instances INDEXED BY millrace_instances_by_time
        WHERE tenant_id = ${tenantId} ORDER BY accepted_at DESC, id DESC LIMIT ${SEEN_INSTANCES}) i`,
  );
  const entries = rows.flatMap(({ workflow, entries }) =>
    (JSON.parse(String(entries)) as Entry[]).map((entry) => ({ ...entry, workflow: String(workflow) })),
  );
  return new Map([...Map.groupBy(entries, ({ workflow }) => workflow)].map(([workflow, of]) => [workflow, seenOf(of)]));
}

interface Entry {
  readonly step: string;
  readonly class: RecordedClass;
  /** Below 0: a step that takes another back. */
  readonly position: number;
  readonly emits: readonly string[];
}

function seenOf(entries: readonly Entry[]): Seen {
  const forward = entries.filter(({ position }) => position >= 0).sort((one, other) => one.position - other.position);
  const steps = new Map(forward.map((entry) => [entry.step, entry.class]));
  const emitted = new Set(entries.flatMap(({ emits }) => emits).sort());
  return {
    steps: [...steps].map(([name, of]) => ({ name, class: of })),
    emits: [...emitted].map((one) => {
      const [kind = "", type = ""] = one.split(" ", 2);
      return { kind: kind as Envelope["kind"], type };
    }),
  };
}
