import * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import { normalized, stepOf } from "../contract/cause.ts";
import { type HideOf, hideNothing, shownCode } from "../contract/hide.ts";
import { KNOWN_NAMES } from "../contract/known-fields.ts";
import { component, redacted, timestamp } from "../contract/row.ts";
import { andEquals, fragment, sql } from "../contract/sql.ts";
import type { Operator } from "../store/actions.ts";
import { positionBy, rowPage } from "../store/d1/named.ts";
import type { Page, PageRequest, Position } from "../store/d1/paging.ts";
import { atomically, type Row } from "../store/d1/retry.ts";
import { DeadLetterFilter, type DeadLetterReader, hideInErrors, seesUnattributed } from "./dead-letters.ts";
import { REVEALED, type Redaction } from "./redaction.ts";

/** The fields of a cause. A cause is a group of failures with the same reason. */
const common = {
  id: z.string().describe("A stable id: the same failure always has the same id. Use it as the filter `cause=` of lists."),
  message_type: z.string().nullable(),
  step: z.nullable(z.string()).meta({ description: "The failed step, if the error names one.", ...redacted }),
  message: z.string().meta({ description: "The error message without numbers, ids and quoted values.", ...redacted }),
  count: z.int().describe("The exact number of current failures with this cause."),
  first_at: timestamp.describe("When the first current failure with this cause was recorded."),
  last_at: timestamp.describe("When the last failure with this cause was recorded."),
};
const newest = z.string().nullable().describe("The newest.");

export const LetterCause = component("DeadLetterCause", { ...common, queue: z.string(), reason: z.string(), dead_letter_id: newest });
export type LetterCause = z.infer<typeof LetterCause>;

export const InstanceCause = component("InstanceCause", { ...common, workflow: z.string(), code: z.string(), instance_id: newest });
export type InstanceCause = z.infer<typeof InstanceCause>;

export const LetterCauseFilter = DeadLetterFilter.pick({ queue: true, reason: true, type: true });

/** Open dead letters by cause, the most recently seen cause first. */
export function listLetterCauses(
  env: EngineEnv,
  by: DeadLetterReader,
  { queue, reason, type, ...request }: z.infer<typeof LetterCauseFilter> & PageRequest,
  redaction: Redaction = REVEALED,
): Promise<Page<LetterCause>> {
  const readers = seesUnattributed(by) ? [by.tenantId, null] : [by.tenantId];
  const hides = (ids: readonly string[]) => hideInErrors(env, by, redaction, ids);
  return rowPage(LetterCause, request, positionBy("last_at", "id"), (...page) =>
    causesOf(env, { kind: "letter", readers, hides }, { place: queue, code: reason, message_type: type }, ...page),
  );
}

export const InstanceCauseFilter = z.object({
  workflow: z.string().optional().describe(KNOWN_NAMES),
  code: z.string().optional(),
});

/** Errored instances by cause, the most recently seen cause first. */
export function listInstanceCauses(
  env: EngineEnv,
  by: Operator,
  { workflow, code, ...request }: z.infer<typeof InstanceCauseFilter> & PageRequest,
  redaction: Redaction = REVEALED,
): Promise<Page<InstanceCause>> {
  const hides = (ids: readonly string[]) => redaction.ofInstances(env, by, ids);
  return rowPage(InstanceCause, request, positionBy("last_at", "id"), (...page) =>
    causesOf(env, { kind: "instance", readers: [by.tenantId], hides }, { place: workflow, code }, ...page),
  );
}

interface Failures {
  readonly kind: "letter" | "instance";
  readonly readers: readonly (string | null)[];
  hides(ids: readonly string[]): Promise<HideOf>;
}

/**
 * Returns the rows of causes under the field names of both kinds. The redaction of the newest failure (`sample`: id and error message) also
 * applies to its cause.
 */
async function causesOf(
  { DB }: EngineEnv,
  { kind, readers, hides }: Failures,
  { place, code, message_type }: Partial<Record<"place" | "code" | "message_type", string | undefined>>,
  before: Position,
  limit: number,
): Promise<Row[]> {
  const of = (tenantId: string | null) => sql`
    SELECT c.id, c.place, c.message_type, c.step, c.code, c.count, c.first_at, c.last_at, ${
      kind === "letter"
        ? sql`(
      SELECT json_array(d.id, d.error) FROM millrace_dead_letters d INDEXED BY millrace_dead_letters_by_cause
      WHERE d.tenant_id IS nullif(c.tenant_id, '') AND d.cause = c.id AND d.state = 'open'
      ORDER BY d.captured_at DESC, d.id DESC LIMIT 1)`
        : sql`(
      SELECT json_array(i.id, i.error->>'message') FROM millrace_instances i INDEXED BY millrace_instances_by_cause
      WHERE i.tenant_id = c.tenant_id AND i.cause = c.id AND i.status = 'errored'
      ORDER BY i.accepted_at DESC, i.id DESC LIMIT 1)`
    } AS sample
    FROM millrace_causes c
    WHERE c.tenant_id = ${tenantId ?? ""} AND c.kind = ${kind} ${andEquals(fragment("place"), place)} ${andEquals(fragment("code"), code)}
      ${andEquals(fragment("message_type"), message_type)} AND (c.last_at, c.id) < (${before.at}, ${before.id})
    ORDER BY c.last_at DESC, c.id DESC LIMIT ${limit}`;
  const rows = (await atomically(DB, readers.map(of))).flat().map((row) => {
    const [sample, said] = JSON.parse(String(row.sample ?? "[null, null]")) as [string | null, string | null];
    return { ...row, id: String(row.id), at: Number(row.last_at), place: row.place, step: row.step, code: String(row.code), sample, said };
  });
  const shown = rows.toSorted((a, b) => b.at - a.at || (a.id < b.id ? 1 : -1)).slice(0, limit);
  const hide = await hides(shown.flatMap(({ sample }) => sample ?? []));
  return shown.map(({ place, sample, said, ...row }) => {
    const own = sample === null ? hideNothing : hide(sample);
    const code = shownCode(own, row.code);
    const message = said === null ? "" : normalized(own(said));
    const named = { queue: place, workflow: place, code, reason: code, dead_letter_id: sample, instance_id: sample };
    return { ...row, ...named, step: row.step ? own(stepOf(String(row.step))) : null, message };
  });
}
