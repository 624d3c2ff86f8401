import type { EngineEnv } from "../contract/bindings.ts";
import { type EntryKey, formatEntryKey, parseEntryKey } from "../contract/ids.ts";
import { andEquals, type Fragment, fragment, type Statement, sql } from "../contract/sql.ts";
import { labelOf } from "../contract/step-names.ts";
import type { Answered, Failure } from "../pass/failure.ts";
import type { Operator } from "../store/actions.ts";
import type { Page, PageRequest } from "../store/d1/paging.ts";
import { query } from "../store/d1/retry.ts";
import type { RecordedClass } from "../store/inbox/classes.ts";
import { nobodyRuns } from "../store/inbox/doubts.ts";
import type { EntryState } from "../store/inbox/entry.ts";
import { IS_FREE, SKIPPED, UNDONE } from "../store/inbox/outcome.ts";
import type { InstanceStatus } from "../store/instances/status.ts";
import { type Answers, answersTo } from "./answers.ts";

/** One guarded effect. */
export interface Effect {
  /** Its key in `POST /v1/effects/{key}/…`. */
  key: string;
  instanceId: string;
  step: string;
  item: string;
  generation: number;
  class: RecordedClass;
  state: EntryState;
  /** `undoable`: the code had an `undo` for it · `permanent`: it had none · `undo_step`: a step that undid another effect. */
  undo: "undoable" | "permanent" | "undo_step";
  /** True if an operator skipped it: nothing happened, and its output was given. */
  skipped: boolean;
  /** True if it was undone. A superseded effect without this mark was executed again, and may have happened. */
  takenBack: boolean;
  epoch: number;
  /** The input that was sent, cut to 4 KB; kept for `lookup` and `once` effects only. */
  input: string | null;
  /** The recorded output as JSON, or its location. */
  output: string | null;
  outputRef: string | null;
  error: Failure | null;
  /** The upstream's answer if it is known to have happened and its rows were refused; null otherwise. */
  answered: Answered | null;
  /** When the attempt of an inline step began; null for other steps. */
  beganAt: number | null;
  /** When an inline step ended; null for other steps. */
  endedAt: number | null;
  updatedAt: number;
}

const EFFECT = fragment(
  `e.instance_id, e.step, e.item, e.generation, e.class, e.state, e.position, e.undoable, e.epoch,
    e.token, e.input, e.output, e.output_ref, e.error, e.began_at, e.ended_at, e.updated_at`,
);

/**
 * The effects of an instance in the order of its steps, then the steps that undid them, in their order. Without generations for which
 * nothing was sent.
 */
export function effectsOf(env: EngineEnv, by: Operator, instanceId: string): Promise<Effect[]> {
  return select(env, by, instanceId, sql`NOT ${IS_FREE}`);
}

/** As `effectsOf`, with the generations that a retry would begin, as `failed`. */
export function effectsAndFree(env: EngineEnv, by: Operator, instanceId: string): Promise<Effect[]> {
  return select(env, by, instanceId, sql`true`);
}

/** An effect that an operator must resolve, and the consequence of each resolution. */
export interface Doubt extends Effect {
  /** The step's name in the code, with the key of an item in brackets. */
  label: string;
  workflow: string;
  subject: string;
  follows: Answers;
}

const DOUBT = fragment(
  `${EFFECT.fragment}, i.workflow, i.subject, i.status, i.undo AS undone_by, ${nobodyRuns("e.position").fragment} AS runs_no_more`,
);

/** An instance's effects in doubt, in the order of its steps. */
export async function doubtsOf(env: EngineEnv, by: Operator, instanceId: string): Promise<Doubt[]> {
  const rows = await query(env.DB, ofInstance(DOUBT, by, instanceId, sql`e.state = 'in_doubt'`));
  return rows.map(asDoubt);
}

async function select(env: EngineEnv, by: Operator, instanceId: string, which: Statement): Promise<Effect[]> {
  return (await query(env.DB, ofInstance(EFFECT, by, instanceId, which))).map(asEffect);
}

function ofInstance(columns: Fragment, { tenantId }: Operator, instanceId: string, which: Statement): Statement {
  return sql`
    SELECT ${columns} FROM millrace_inbox e JOIN millrace_instances i ON i.id = e.instance_id
    WHERE e.instance_id = ${instanceId} AND i.tenant_id = ${tenantId} AND ${which}
    ORDER BY e.position < 0, e.position, e.item, e.generation`;
}

export interface DoubtFilter extends PageRequest {
  state: "in_doubt";
  workflow?: string | undefined;
  step?: string | undefined;
}

/** The tenant's effects in doubt, oldest first. Reads the index of effects in doubt of all tenants, which are few. */
export async function listEffects(env: EngineEnv, by: Operator, filter: DoubtFilter): Promise<Page<Doubt>> {
  const size = Math.min(filter.limit ?? 50, 200);
  const { at, key } = behind(filter.cursor);
  const rows = await query(
    env.DB,
    sql`
      SELECT ${DOUBT} FROM millrace_inbox e INDEXED BY millrace_inbox_in_doubt CROSS JOIN millrace_instances i ON i.id = e.instance_id
      WHERE e.state = 'in_doubt' AND e.updated_at >= ${at} AND i.tenant_id = ${by.tenantId}
        AND (e.updated_at, e.instance_id, e.step, e.item, e.generation)
          > (${at}, ${key.instanceId}, ${key.step}, ${key.item}, ${key.generation})
        ${andEquals(fragment("workflow"), filter.workflow)} ${andEquals(fragment("step"), filter.step)}
      ORDER BY e.updated_at, e.instance_id, e.step, e.item, e.generation LIMIT ${size + 1}`,
  );
  const items = rows.slice(0, size).map(asDoubt);
  const last = rows.length > size ? items.at(-1) : undefined;
  return { items, next: last === undefined ? null : `${last.updatedAt}.${last.key}` };
}

/** The start of a page, after this effect; undefined for an invalid cursor. */
export function doubtBehind(cursor: string): { at: number; key: EntryKey } | undefined {
  const [, at, name = ""] = /^(0|[1-9]\d{0,15})\.([A-Za-z0-9_-]{1,4000})$/.exec(cursor) ?? [];
  const key = parseEntryKey(name);
  return at === undefined || key === undefined ? undefined : { at: Number(at), key };
}

const FIRST = { at: 0, key: { instanceId: "", step: "", item: "", generation: 0 } };

function behind(cursor: string | undefined): { at: number; key: EntryKey } {
  return (cursor === undefined ? undefined : doubtBehind(cursor)) ?? FIRST;
}

function asEffect(row: Record<string, unknown>): Effect {
  const key = { instanceId: String(row.instance_id), step: String(row.step), item: String(row.item), generation: Number(row.generation) };
  const error = row.error ? (JSON.parse(String(row.error)) as Failure) : null;
  return {
    key: formatEntryKey(key),
    ...key,
    class: row.class as RecordedClass,
    state: row.state as EntryState,
    undo: Number(row.position) < 0 ? "undo_step" : row.undoable === 1 ? "undoable" : "permanent",
    skipped: row.token === SKIPPED,
    takenBack: row.state === "superseded" && row.token === UNDONE,
    epoch: Number(row.epoch),
    input: row.input as string | null,
    output: row.output as string | null,
    outputRef: row.output_ref as string | null,
    error,
    answered: error?.answered ?? null,
    beganAt: row.began_at === null ? null : Number(row.began_at),
    endedAt: row.ended_at === null ? null : Number(row.ended_at),
    updatedAt: Number(row.updated_at),
  };
}

function asDoubt(row: Record<string, unknown>): Doubt {
  const effect = asEffect(row);
  const follows = answersTo({
    status: row.status as InstanceStatus,
    undo: row.undone_by as string | null,
    takesBack: effect.undo === "undo_step",
    undoable: effect.undo === "undoable",
    runsNoMore: row.runs_no_more === 1,
    hasHappened: effect.answered !== null,
  });
  const label = labelOf(effect.step, effect.item);
  return { ...effect, label, workflow: String(row.workflow), subject: String(row.subject), follows };
}
