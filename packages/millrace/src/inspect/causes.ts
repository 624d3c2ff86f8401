import type { EngineEnv } from "../contract/bindings.ts";
import { normalized, stepOf } from "../contract/cause.ts";
import { type Hide, hideNothing, shownCode } from "../contract/hide.ts";
import { andEquals, fragment, type Statement, sql } from "../contract/sql.ts";
import type { Operator } from "../store/actions.ts";
import { keysetPage, type Page, type PageRequest, type Position } from "../store/d1/paging.ts";
import { atomically } from "../store/d1/retry.ts";
import { type DeadLetterReader, hideInErrors, seesUnattributed } from "./dead-letters.ts";
import { REVEALED, type Redaction } from "./redaction.ts";

/** Failures with the same reason. */
export interface Cause {
  /** Stable: the same failure has the same id in every deployment. */
  readonly id: string;
  /** The queue of dead letters, the workflow of instances. */
  readonly place: string;
  readonly messageType: string | null;
  readonly step: string | null;
  readonly code: string;
  /** The error message without numbers, ids, quoted values and similar parts. */
  readonly message: string;
  readonly count: number;
  /** When the first and the last one failed, since the number was last 0. */
  readonly firstAt: number;
  readonly lastAt: number;
  /** The id of the newest one. */
  readonly sample: string | null;
}

export interface LetterCauseFilter extends PageRequest {
  queue?: string | undefined;
  reason?: string | undefined;
  type?: string | undefined;
}

/** Open dead letters by cause, the most recently seen cause first. */
export function listLetterCauses(
  env: EngineEnv,
  by: DeadLetterReader,
  filter: LetterCauseFilter,
  redaction: Redaction = REVEALED,
): Promise<Page<Cause>> {
  const readers = seesUnattributed(by) ? [by.tenantId, null] : [by.tenantId];
  const hides = (ids: readonly string[]) => hideInErrors(env, by, redaction, ids);
  return pageOf(env, filter, hides, (before, limit) =>
    readers.map(
      (tenantId) => sql`
      SELECT ${COLUMNS}, (
        SELECT json_array(d.id, d.error) FROM millrace_dead_letters d INDEXED BY millrace_dead_letters_by_cause
        WHERE d.tenant_id IS ${tenantId} AND d.cause = c.id AND d.state = 'open'
        ORDER BY d.captured_at DESC, d.id DESC LIMIT 1) AS sample
      FROM millrace_causes c
      WHERE c.tenant_id = ${tenantId ?? ""} AND c.kind = 'letter' ${andEquals(fragment("place"), filter.queue)}
        ${andEquals(fragment("code"), filter.reason)} ${andEquals(fragment("message_type"), filter.type)}
        AND (c.last_at, c.id) < (${before.at}, ${before.id})
      ORDER BY c.last_at DESC, c.id DESC LIMIT ${limit}`,
    ),
  );
}

export interface InstanceCauseFilter extends PageRequest {
  workflow?: string | undefined;
  code?: string | undefined;
}

/** Errored instances by cause, the most recently seen cause first. */
export function listInstanceCauses(
  env: EngineEnv,
  by: Operator,
  filter: InstanceCauseFilter,
  redaction: Redaction = REVEALED,
): Promise<Page<Cause>> {
  const hides = (ids: readonly string[]) => redaction.ofInstances(env, by, ids);
  return pageOf(env, filter, hides, (before, limit) => [
    sql`
      SELECT ${COLUMNS}, (
        SELECT json_array(i.id, i.error->>'message') FROM millrace_instances i INDEXED BY millrace_instances_by_cause
        WHERE i.tenant_id = c.tenant_id AND i.cause = c.id AND i.status = 'errored'
        ORDER BY i.accepted_at DESC, i.id DESC LIMIT 1) AS sample
      FROM millrace_causes c
      WHERE c.tenant_id = ${by.tenantId} AND c.kind = 'instance' ${andEquals(fragment("place"), filter.workflow)}
        ${andEquals(fragment("code"), filter.code)}
        AND (c.last_at, c.id) < (${before.at}, ${before.id})
      ORDER BY c.last_at DESC, c.id DESC LIMIT ${limit}`,
  ]);
}

const COLUMNS = fragment(`c.id, c.place, c.message_type AS messageType, c.step, c.code, c.count, c.first_at AS firstAt,
  c.last_at AS lastAt`);

interface CauseRow extends Omit<Cause, "sample" | "message"> {
  readonly sample: string | null;
}

function pageOf(
  { DB }: EngineEnv,
  request: PageRequest,
  hides: (ids: readonly string[]) => Promise<(id: string) => Hide>,
  statements: (before: Position, limit: number) => readonly Statement[],
): Promise<Page<Cause>> {
  return keysetPage(
    request,
    ({ lastAt, id }) => ({ at: lastAt, id }),
    async (before, limit) => {
      const rows = (await atomically(DB, statements(before, limit))).flat() as unknown as CauseRow[];
      const page = rows.map(sampled).toSorted((a, b) => b.lastAt - a.lastAt || (a.id < b.id ? 1 : -1));
      const shown = page.slice(0, limit);
      const hide = await hides(shown.flatMap(({ sample }) => sample ?? []));
      return shown.map((cause) => asCause(cause, hide));
    },
  );
}

interface SampledCause extends CauseRow {
  readonly said: string | null;
}

function sampled({ sample, ...row }: CauseRow): SampledCause {
  const [id, said] = (sample === null ? [null, null] : JSON.parse(sample)) as [string | null, string | null];
  return { ...row, sample: id, said };
}

/** The message comes from the newest sample, so a rewrite or redaction there applies here. */
function asCause({ said, step, ...row }: SampledCause, hide: (id: string) => Hide): Cause {
  const own = row.sample === null ? hideNothing : hide(row.sample);
  const message = said === null ? "" : normalized(own(said));
  return { ...row, code: shownCode(own, row.code), step: step ? own(stepOf(step)) : null, message };
}
