import * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { listOf } from "../contract/row.ts";
import { fragment, sql } from "../contract/sql.ts";
import type { Operator } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import { RECORDED_CLASSES, type RecordedClass } from "../store/inbox/classes.ts";

export const SEEN_INSTANCES = 200;
const READ_ENTRIES = 50;

/** A workflow's steps are unknown until its code has run. */
export const Seen = z.object({
  steps: listOf({ name: z.string(), class: z.enum(RECORDED_CLASSES) }).describe(
    "Observed steps with an effect, each with its effect class.",
  ),
  emits: z.array(z.object({ kind: z.enum(["command", "event"]), type: z.string() })).describe("Observed emitted messages."),
});
type Seen = z.infer<typeof Seen>;

const ENTRIES = fragment(`(SELECT step, class, position, messages FROM millrace_inbox
  WHERE millrace_inbox.instance_id = i.id LIMIT ${READ_ENTRIES})`);

/** By workflow, from the tenant's newest instances. */
export async function seenSteps(env: Pick<EngineEnv, "DB">, { tenantId }: Operator): Promise<ReadonlyMap<string, Seen>> {
  const rows = await query(
    env.DB,
    sql`
      SELECT i.workflow, (
        SELECT json_group_array(json_object('step', e.step, 'class', e.class, 'position', e.position, 'emits', json((
          SELECT json_group_array(DISTINCT m.value->>'kind' || ' ' || (m.value->>'message_type')) FROM json_each(e.messages) m
          WHERE m.value->>'omitted' IS NULL))))
        FROM ${ENTRIES} e) AS entries
      FROM (SELECT id, workflow FROM millrace_instances INDEXED BY millrace_instances_by_time
        WHERE tenant_id = ${tenantId} ORDER BY accepted_at DESC, id DESC LIMIT ${SEEN_INSTANCES}) i`,
  );
  const entries = rows.flatMap(({ workflow, entries }) =>
    (JSON.parse(String(entries)) as Entry[]).map((entry) => ({ ...entry, workflow: String(workflow) })),
  );
  return new Map([...Map.groupBy(entries, ({ workflow }) => workflow)].map(([workflow, of]) => [workflow, seenOf(of)]));
}

/** `position` is negative for a step of an undo. */
type Entry = { step: string; class: RecordedClass; position: number; emits: string[] };

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
