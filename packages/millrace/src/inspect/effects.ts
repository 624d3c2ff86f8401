import * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import { type EntryKey, formatEntryKey, parseEntryKey } from "../contract/ids.ts";
import { KNOWN_NAMES } from "../contract/known-fields.ts";
import { component, redacted, rowOf, timestamp } from "../contract/row.ts";
import { andEquals, type Fragment, fragment, type Statement, sql } from "../contract/sql.ts";
import { ShownFailure } from "../replay/failure.ts";
import type { Operator } from "../store/actions.ts";
import type { Page, PageRequest } from "../store/d1/paging.ts";
import { query, type Row } from "../store/d1/retry.ts";
import { RECORDED_CLASSES } from "../store/inbox/classes.ts";
import { IS_FREE, SKIPPED, UNDONE } from "../store/inbox/outcome.ts";
import { Answers, answersTo, DOUBTED_COLUMNS, type Doubted } from "./answers.ts";

export const AnsweredEffect = z
  .object({
    output: z.unknown().meta({
      description: "The recorded output; null without an output, and for an output stored elsewhere (`output_ref`).",
      ...redacted,
    }),
    output_ref: z.string().nullable().describe("The location of a large output."),
  })
  .meta({
    id: "Answered",
    description:
      "The output of an effect that happened, although its rows were refused (see `error`). Send this `output` with `confirm` after deploying code with valid rows. Null for other effects.",
  });

export const EffectRow = component("Effect", {
  key: z.string().describe("The key of the effect in `POST /v1/effects/{key}/…`."),
  instance_id: z.string(),
  step: z.string(),
  item: z.string().describe("Distinguishes parallel calls of one step; empty for a step that runs once."),
  generation: z.int().describe("The generation of the effect; an operator increases it by requesting the effect again."),
  class: z.enum(RECORDED_CLASSES),
  state: z.enum(["claimed", "failed", "in_doubt", "confirmed", "done", "superseded"]),
  skipped: z.boolean().describe("True for a step that an operator skipped: it did not run, and its output was given."),
  epoch: z.int(),
  input: z.unknown().meta({
    description:
      "The input of the effect, recorded only for the classes `lookup` and `once`. An input over 4 KB is cut: a string with the beginning of its JSON.",
    ...redacted,
  }),
  ...AnsweredEffect.shape,
  error: ShownFailure.nullable().meta(redacted),
  answered: AnsweredEffect.nullable(),
  updated_at: timestamp,
});
export type EffectRow = z.infer<typeof EffectRow>;

export const Doubt = EffectRow.extend({ workflow: z.string(), subject: z.string(), consequences: Answers }).meta({ id: "Doubt" });
export type Doubt = z.infer<typeof Doubt>;

/** The fields that operator actions need. Input and output are JSON texts, and times are milliseconds. */
const StoredEffect = EffectRow.extend({
  input: z.string().nullable(),
  output: z.string().nullable(),
  updated_at: z.int(),
  /** `undoable`: the code has an `undo` for it. `permanent`: the code has none. `undo_step`: it is itself a step that undid an effect. */
  undo: z.enum(["undoable", "permanent", "undo_step"]),
  /** True if an operator gave the recorded output, by a confirmation or a skip. */
  given: z.boolean(),
  /** True if the effect was undone. A superseded effect that was not undone was executed again, and may have happened. */
  is_undone: z.boolean(),
  /** The start and the end of the attempt of an inline step; null for other steps. */
  began_at: z.int().nullable(),
  ended_at: z.int().nullable(),
});
export type Effect = z.infer<typeof StoredEffect>;

/** A truncated input is not valid JSON, so the API returns it as a string. */
const COLUMNS =
  fragment(`e.instance_id, e.step, e.item, e.generation, e.class, e.state, coalesce(e.token = '${SKIPPED}', 0) AS skipped, e.epoch,
  iif(json_valid(e.input), e.input, json_quote(e.input)) AS input, e.output, e.output_ref, e.error, e.updated_at, e.began_at, e.ended_at,
  iif(e.error->'answered' IS NULL, NULL, json_object('output', json(e.error->>'$.answered.output'),
    'output_ref', e.error->>'$.answered.outputRef')) AS answered,
  CASE WHEN e.position < 0 THEN 'undo_step' WHEN e.undoable = 1 THEN 'undoable' ELSE 'permanent' END AS undo,
  coalesce(e.state IN ('confirmed', 'done') AND e.token IN ('operator', '${SKIPPED}'), 0) AS given,
  coalesce(e.state = 'superseded' AND e.token = '${UNDONE}', 0) AS is_undone`);

const DOUBT = fragment(`${COLUMNS.fragment}, i.workflow, i.subject, ${DOUBTED_COLUMNS.fragment}`);

/**
 * The effects of an instance in the order of its steps, then the steps that undid effects, in the order of the undo. Generations for which
 * nothing was sent are omitted.
 */
export async function effectsOf(env: EngineEnv, by: Operator, instanceId: string): Promise<Effect[]> {
  return (await read(env, by, instanceId, COLUMNS, sql`NOT ${IS_FREE}`)).map((row) => rowOf(StoredEffect, row));
}

/** Like `effectsOf`, and also returns the generations that a retry would begin. These generations have the state `failed`. */
export async function effectsAndFree(env: EngineEnv, by: Operator, instanceId: string): Promise<Effect[]> {
  return (await read(env, by, instanceId, COLUMNS, sql`true`)).map((row) => rowOf(StoredEffect, row));
}

/** The effects of `effectsOf` in the form of the API. */
export async function listEffectsOf(env: EngineEnv, by: Operator, instanceId: string): Promise<EffectRow[]> {
  return (await read(env, by, instanceId, COLUMNS, sql`NOT ${IS_FREE}`)).map((row) => rowOf(EffectRow, row));
}

export async function doubtsOf(env: EngineEnv, by: Operator, instanceId: string): Promise<Doubt[]> {
  return (await read(env, by, instanceId, DOUBT, sql`e.state = 'in_doubt'`)).map(doubtIn);
}

async function read({ DB }: EngineEnv, { tenantId }: Operator, instanceId: string, columns: Fragment, which: Statement) {
  const rows = await query(
    DB,
    sql`
      SELECT ${columns} FROM millrace_inbox e JOIN millrace_instances i ON i.id = e.instance_id
      WHERE e.instance_id = ${instanceId} AND i.tenant_id = ${tenantId} AND ${which}
      ORDER BY e.position < 0, e.position, e.item, e.generation`,
  );
  return rows.map(withKey);
}

export const DoubtFilter = z.object({
  state: z.literal("in_doubt").default("in_doubt"),
  workflow: z.string().optional().describe(KNOWN_NAMES),
  step: z.string().optional().describe("The name of a step in the code, for all items and generations."),
});

/** Oldest first. The query reads the effects in doubt of all tenants, which are few. */
export async function listEffects(env: EngineEnv, by: Operator, filter: z.infer<typeof DoubtFilter> & PageRequest): Promise<Page<Doubt>> {
  const size = Math.min(filter.limit ?? 50, 200);
  const { at, key } = doubtBehind(filter.cursor ?? "") ?? FIRST;
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
  const items = rows.slice(0, size).map((row) => doubtIn(withKey(row)));
  const last = rows.length > size ? items.at(-1) : undefined;
  return { items, next: last === undefined ? null : `${Date.parse(last.updated_at)}.${last.key}` };
}

/** The effect after which the next page starts; undefined for an invalid cursor. */
export function doubtBehind(cursor: string): { at: number; key: EntryKey } | undefined {
  const [, at, name = ""] = /^(0|[1-9]\d{0,15})\.([A-Za-z0-9_-]{1,4000})$/.exec(cursor) ?? [];
  const key = parseEntryKey(name);
  return at === undefined || key === undefined ? undefined : { at: Number(at), key };
}

const FIRST = { at: 0, key: { instanceId: "", step: "", item: "", generation: 0 } };

function withKey(row: Row): Row {
  const { instance_id, step, item, generation } = row;
  const of = { instanceId: String(instance_id), step: String(step), item: String(item), generation: Number(generation) };
  return { ...row, key: formatEntryKey(of) };
}

function doubtIn(row: Row): Doubt {
  return rowOf(Doubt, { ...row, consequences: answersTo(row as unknown as Doubted) });
}
