import * as z from "zod";
import type { Asker } from "../access/may-ask.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import { readCells } from "../contract/cells.ts";
import { MillraceError } from "../contract/errors.ts";
import { type HideOf, hideAll, hideNothing } from "../contract/hide.ts";
import { parseEntryKey } from "../contract/ids.ts";
import { KNOWN_NAMES } from "../contract/known-fields.ts";
import { component, redacted, redactedCode, timestamp } from "../contract/row.ts";
import { among, andEquals, fragment, type Statement, sql } from "../contract/sql.ts";
import { beginning } from "../contract/text.ts";
import { positionBy, rowPage, selectRows } from "../store/d1/named.ts";
import { LOOKED_AT, type Page, type PageRequest, type Position } from "../store/d1/paging.ts";
import { atomically, query, type Row } from "../store/d1/retry.ts";
import { selectRecentLetters } from "../store/dead-letters.ts";
import { REVEALED, type Redaction } from "./redaction.ts";

const STATES = ["open", "replayed", "skipped"] as const;
const hiddenText = z.string().meta(redacted);

export const DeadLetterRow = component("DeadLetter", {
  id: z.string(),
  queue: z.string(),
  message_type: z.string().nullable(),
  idempotency_key: z.string().nullable(),
  correlation_id: z.string().nullable(),
  instance_id: z.string().nullable(),
  reason: z.string().meta({ description: "The code of the error, or `exhausted` after the last attempt.", ...redactedCode }),
  error: z.string().nullable().meta(redacted),
  issues: z.array(z.object({ path: hiddenText, message: hiddenText })).nullable(),
  step: z.nullable(z.string()).meta({ description: "The failed step, if the error names one.", ...redacted }),
  upstream_status: z.int().nullable().describe("The HTTP status of an upstream in the last attempt, if any."),
  cause: z
    .nullable(z.string())
    .describe("The id of its cause in `/v1/dead-letters/causes`; null for a dead letter captured before causes existed."),
  attempts: z.int(),
  first_at: timestamp.describe("When the message was sent."),
  first_attempt_at: timestamp.nullable().describe("When the first attempt failed; null if that was not recorded."),
  last_attempt_at: timestamp.nullable().describe("When the attempt with this error failed."),
  captured_at: timestamp,
  state: z.enum(STATES),
  escalation: z.object({ by: z.string(), at: timestamp, note: z.string() }).nullable().describe("The escalation: actor, time and note."),
  repair: z
    .object({
      name: z.string(),
      outcome: z.enum(["sent", "refused", "failed"]),
      at: timestamp,
      changed: z.array(hiddenText).describe("The changed fields as dotted paths, at most 20."),
      error: z.nullable(z.string()).meta({ description: "Why the repair failed; null if it succeeded.", ...redacted }),
    })
    .nullable()
    .describe("The automatic repair that was tried on the dead letter."),
});
export type DeadLetterRow = z.infer<typeof DeadLetterRow>;

export const FullDeadLetter = DeadLetterRow.extend({
  body: z.unknown().meta({ description: "The received message, unchanged.", ...redacted }),
});
export type FullDeadLetter = z.infer<typeof FullDeadLetter>;

export const DeadLetterFilter = z.object({
  state: z.enum(STATES).default("open"),
  queue: z.string().optional().describe(KNOWN_NAMES),
  reason: z.string().optional().describe(`The code of the error, or \`exhausted\`. ${KNOWN_NAMES}`),
  type: z.string().optional().describe("The message's type."),
  cause: z.string().optional().describe("An `id` of `/v1/dead-letters/causes`."),
  escalated: z.optional(z.enum(["true", "false"]).transform((said) => said === "true")).describe("True: list only escalated dead letters."),
});
export type DeadLetterFilter = Partial<z.infer<typeof DeadLetterFilter>> & PageRequest;

export type DeadLetterReader = Asker;

/** Dead letters without a tenant are visible only with the scope `unattributed`. */
export function seesUnattributed({ scopes }: DeadLetterReader): boolean {
  return scopes.includes("unattributed");
}

const COLUMNS = fragment(
  `id, queue, message_type, idempotency_key, correlation_id, instance_id, reason, error, issues, attempts, first_at, captured_at, state,
    step, upstream_status, cause, first_attempt_at, last_attempt_at, repair,
    iif(escalated_at IS NULL, NULL, json_object('by', escalated_by, 'at', escalated_at, 'note', escalation)) AS escalation`,
);

/** Newest first. With a filter by queue, reason or type, a page may be short or empty although a next page exists. */
export function listDeadLetters(env: EngineEnv, by: DeadLetterReader, filter: DeadLetterFilter): Promise<Page<DeadLetterRow>> {
  const readers = seesUnattributed(by) ? [by.tenantId, null] : [by.tenantId];
  return rowPage(DeadLetterRow, filter, positionBy("captured_at", "id"), async (before, limit) => {
    const end = isLookedFor(filter) ? await endOfLook(env, readers, filter, before) : undefined;
    // A statement for each tenant reads the index in order. One statement with OR would sort the rows of both.
    const of = (tenantId: string | null) => sql`
        SELECT ${COLUMNS} FROM millrace_dead_letters ${whereLettersAre(filter)} AND tenant_id IS ${tenantId}
          ${andEquals(fragment("queue"), filter.queue)} ${andEquals(fragment("reason"), filter.reason)}
          ${andEquals(fragment("message_type"), filter.type)}
          ${filter.escalated === undefined ? sql`` : filter.escalated ? sql`AND escalated_at IS NOT NULL` : sql`AND escalated_at IS NULL`}
          AND (captured_at, id) < (${before.at}, ${before.id}) AND (captured_at, id) >= (${end?.at ?? 0}, ${end?.id ?? ""})
        ORDER BY captured_at DESC, id DESC LIMIT ${limit}`;
    const letters = (await atomically(env.DB, readers.map(of))).flat();
    return { found: letters.sort(byTime).slice(0, limit), end };
  });
}

function byTime(a: Row, b: Row): number {
  return Number(b.captured_at) - Number(a.captured_at) || (String(a.id) < String(b.id) ? 1 : -1);
}

function isLookedFor({ queue, reason, type, ...filter }: DeadLetterFilter): boolean {
  return [queue, reason, type].some((one) => one !== undefined) || (filter.escalated !== undefined && !isInEscalated(filter));
}

function isInEscalated({ state = "open", cause, escalated }: DeadLetterFilter): boolean {
  return escalated === true && state === "open" && cause === undefined;
}

/** The last dead letter that this page scans; undefined if it scans all that remain. */
async function endOfLook(
  { DB }: EngineEnv,
  readers: readonly (string | null)[],
  filter: DeadLetterFilter,
  before: Position,
): Promise<Position | undefined> {
  const ends = await atomically(
    DB,
    readers.map(
      (tenantId) => sql`
      SELECT captured_at, id FROM millrace_dead_letters ${whereLettersAre(filter)} AND tenant_id IS ${tenantId}
        AND (captured_at, id) < (${before.at}, ${before.id})
      ORDER BY captured_at DESC, id DESC LIMIT 1 OFFSET ${LOOKED_AT - 1}`,
    ),
  );
  const [newest] = ends.flat().sort(byTime);
  return newest && positionBy("captured_at", "id")(newest);
}

/** Selects the index with the fewest rows. SQLite matches the conditions of a partial index only with literals. */
export function whereLettersAre(filter: DeadLetterFilter): Statement {
  const { state = "open", cause } = filter;
  if (isInEscalated(filter)) return sql`INDEXED BY millrace_dead_letters_escalated WHERE escalated_at IS NOT NULL AND state = 'open'`;
  if (cause !== undefined) return sql`INDEXED BY millrace_dead_letters_by_cause WHERE cause = ${cause} AND state = ${state}`;
  return sql`INDEXED BY millrace_dead_letters_by_tenant WHERE state = ${state}`;
}

export function lettersNamed(env: EngineEnv, by: Pick<Asker, "tenantId">, ids: readonly string[]): Promise<DeadLetterRow[]> {
  return selectRows(
    env.DB,
    DeadLetterRow,
    sql`SELECT ${COLUMNS} FROM millrace_dead_letters WHERE id IN ${among(ids)} AND +tenant_id = ${by.tenantId}`,
  );
}

function visibleTo(by: DeadLetterReader): Statement {
  return seesUnattributed(by) ? sql`(+tenant_id = ${by.tenantId} OR +tenant_id IS NULL)` : sql`+tenant_id = ${by.tenantId}`;
}

/** Errors: `dead_letter_not_found`, also for a dead letter of another tenant. */
export async function getDeadLetter(env: EngineEnv, by: DeadLetterReader, id: string): Promise<FullDeadLetter> {
  const [found] = await selectRows(
    env.DB,
    FullDeadLetter,
    sql`SELECT ${COLUMNS}, body FROM millrace_dead_letters WHERE id = ${id} AND ${visibleTo(by)}`,
  );
  if (found) return found;
  // A dead letter that the token may not read gets the error of an unknown id. Any other error would reveal that the dead letter exists.
  const beyond = seesUnattributed(by) ? "" : " that your token may read (a dead letter without a tenant requires the scope `unattributed`)";
  const said = `There is no dead letter ${beginning(id, 64)}${beyond}. List them with GET /v1/dead-letters.`;
  throw new MillraceError("dead_letter_not_found", said);
}

/** In characters. If a message is longer, its whole error is redacted. */
const MAX_READ_BYTES = 32 * 1024;

/** Hides the values of the message's sensitive fields in a dead letter's error. */
export async function hideInErrors(env: EngineEnv, by: DeadLetterReader, redaction: Redaction, ids: readonly string[]): Promise<HideOf> {
  if (redaction === REVEALED || ids.length === 0) return () => hideNothing;
  const hides = await hidesOfLetters(env, by, redaction, ids);
  return (id) => hides.get(id) ?? hideAll;
}

/** Like `hideInErrors`, but the ids can belong to dead letters, instances and effects. */
export async function hideOfTargets(env: EngineEnv, by: DeadLetterReader, redaction: Redaction, ids: readonly string[]): Promise<HideOf> {
  if (redaction === REVEALED || ids.length === 0) return () => hideNothing;
  const instanceOf = (id: string) => parseEntryKey(id)?.instanceId ?? id;
  const [letters, ofInstance] = await Promise.all([
    hidesOfLetters(env, by, redaction, ids),
    redaction.ofInstances(env, by, ids.map(instanceOf)),
  ]);
  return (id) => letters.get(id) ?? ofInstance(instanceOf(id));
}

async function hidesOfLetters(env: EngineEnv, by: DeadLetterReader, redaction: Redaction, ids: readonly string[]) {
  const rows = await query<{ id: string; queue: string; body: string | null }>(
    env.DB,
    sql`
      SELECT id, queue, iif(length(body) <= ${MAX_READ_BYTES}, body, NULL) AS body FROM millrace_dead_letters
      WHERE id IN ${among(ids)} AND ${visibleTo(by)}`,
  );
  return new Map(rows.map(({ id, queue, body }) => [id, redaction.letter(queue, body === null ? undefined : JSON.parse(body)).hide]));
}

export const LettersOfType = component("DeadLettersOfType", { queue: z.string(), type: z.string(), captured: z.int(), open: z.int() });
type LettersOfType = z.infer<typeof LettersOfType>;

/** Of the last day and all tenants, with the cells that did not answer. A type for which `isKnown` is false counts as `unknown`. */
export async function deadLettersByType(env: Pick<EngineEnv, "DB">, isKnown: (type: string) => boolean) {
  const { found, failed } = await readCells(env, ({ DB }) => atomically(DB, STATES.map(selectRecentLetters)));
  const rows = found.flatMap((states) =>
    states.flatMap((letters, at) =>
      letters.map(({ queue, message_type, letters }) => {
        const type = String(message_type ?? "");
        const captured = Number(letters);
        return { queue: String(queue), type: isKnown(type) ? type : "unknown", captured, open: STATES[at] === "open" ? captured : 0 };
      }),
    ),
  );
  const sums = new Map<string, LettersOfType>();
  for (const { queue, type, captured, open } of rows) {
    const key = JSON.stringify([queue, type]);
    const sum = sums.get(key) ?? { captured: 0, open: 0 };
    sums.set(key, { queue, type, captured: captured + sum.captured, open: open + sum.open });
  }
  return { items: [...sums.values()].toSorted((a, b) => b.captured - a.captured || (a.queue < b.queue ? -1 : 1)), failed };
}
