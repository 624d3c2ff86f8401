import { instanceId, parseEntryKey, platformId } from "../../contract/ids.ts";
import { among, fragment, type Statement, sql } from "../../contract/sql.ts";
import { statedId } from "../../intake/accept/stated.ts";
import { askerOf } from "../../signals/approval.ts";
import { OVER_AS } from "../../store/approvals.ts";
import type { Row } from "../../store/d1/retry.ts";
import { selectStatedAt } from "../../store/stated-events.ts";
import { selectPruned } from "../../store/tombstones.ts";
import { ASKED, beginningWith, type Finder, type Found, hashBeginningWith, matchOf, type Sought, titleOf } from "./finder.ts";

/** Maximum number of hashes with the same prefix that a search reads, of all tenants. Other tenants' hashes are then removed. */
const ALIKE = 100;

/**
 * Number of newest instances that are searched for a subject or a trace. An index by subject or by trace would cost a written row per
 * instance. The list of instances also searches older instances.
 */
export const LOOKED_BACK = 2000;

/** Number of newest actions that are searched for an undo. */
const UNDOS = 500;

type Range = ReturnType<typeof beginningWith>;
/** `prefix`: the range of names that begin with the search text. `hash`: the same of hashes; undefined if the text cannot begin a hash. */
type Look = (sought: Sought & { readonly prefix: Range; readonly hash: Range | undefined }) => Statement | undefined;

/**
 * Returns a function that makes a finder of objects by one field. The finder's statement selects `id`, `status` and `at`. A row with a `name`
 * matches by this name, and any other row matches exactly. A column `by` overrides the field. `isIt` returns false for a row that does not
 * match the search.
 */
function kindOf(
  kind: string,
  title: (row: Row, sought: Sought) => unknown[],
  url: (row: Row, sought: Sought) => string,
  isIt: (row: Row, sought: Sought) => boolean = () => true,
): (by: string, look: Look) => Finder {
  const found = (row: Row, sought: Sought, by: string): Found => ({
    id: String(row.id),
    title: titleOf(...title(row, sought)),
    status: row.status === null ? null : String(row.status),
    at: Number(row.at),
    url: url(row, sought),
    by: String(row.by ?? by),
    match: row.name === undefined ? "exact" : matchOf(row.name, sought),
  });
  return (by, look) => ({
    kind,
    look: (sought) => look({ ...sought, prefix: beginningWith(sought.text), hash: hashBeginningWith(sought.text) }),
    read: (row, sought) => (isIt(row, sought) ? found(row, sought, by) : undefined),
  });
}

const eventIds = ({ text, by, known }: Sought) => known.events.map((type) => statedId(by.tenantId, type, text));
const instanceIds = ({ text, by, known }: Sought) => known.workflows.map((workflow) => instanceId(by.tenantId, workflow, text));

const instanceUrl = ({ id }: Row) => `/v1/instances/${id}`;
const instanceTitle = ({ workflow, subject }: Row) => [workflow, subject];
const instance = kindOf("instance", instanceTitle, instanceUrl);
const INSTANCE = fragment("id, workflow, status, subject, accepted_at AS at");

/** The ids of an instance's events, questions and messages begin with its id. */
const OF_INSTANCE = /^([0-9a-f]{32})(?:[./-].*)?$/s;

export const byId = instance("id", ({ text, by, hash }) => {
  const [, id] = OF_INSTANCE.exec(text.toLowerCase()) ?? [];
  if (id !== undefined) return sql`SELECT ${INSTANCE} FROM millrace_instances WHERE id = ${id} AND tenant_id = ${by.tenantId}`;
  if (hash === undefined) return undefined;
  return sql`
    SELECT ${INSTANCE}, id AS name
    FROM (SELECT * FROM millrace_instances WHERE id >= ${hash.from} AND id < ${hash.to} ORDER BY id LIMIT ${ALIKE})
    WHERE tenant_id = ${by.tenantId} LIMIT ${ASKED}`;
});

/** An instance's id is a hash of its workflow and its key, so a key has a separate id for each workflow. */
const byKey = instance(
  "idempotency_key",
  (sought) => sql`
    SELECT ${INSTANCE} FROM millrace_instances WHERE id IN ${among(instanceIds(sought))} AND +tenant_id = ${sought.by.tenantId}`,
);

const recent = instance(
  "subject",
  ({ text, by }) => sql`
    SELECT ${INSTANCE}, iif(subject = ${text}, 'subject', 'trace_id') AS by FROM (
      SELECT * FROM millrace_instances INDEXED BY millrace_instances_by_time WHERE tenant_id = ${by.tenantId}
      ORDER BY accepted_at DESC, id DESC LIMIT ${LOOKED_BACK})
    WHERE subject = ${text} ${isHex(text) ? sql`OR substr(envelope->>'traceparent', 1, 36) = ${`00-${text}-`}` : sql``} LIMIT ${ASKED}`,
);

/**
 * Selects the acceptance time of the oldest searched instance. The statement selects no row if the search covered all of the tenant's
 * instances.
 */
export const lookedBackTo = ({ by }: Pick<Sought, "by">) => sql`
  SELECT accepted_at AS at FROM millrace_instances INDEXED BY millrace_instances_by_time WHERE tenant_id = ${by.tenantId}
  ORDER BY accepted_at DESC, id DESC LIMIT 1 OFFSET ${LOOKED_BACK - 1}`;

const isUndo = ({ id, undo }: Row, { text }: Sought) => platformId(String(id), String(undo)) === text;

/** Finds an instance by the id of its undo on the platform, which is a hash of the instance's id and the action's id. */
const byUndo = kindOf(
  "instance",
  instanceTitle,
  instanceUrl,
  isUndo,
)("platform_id", ({ text, by }) => {
  if (!isHex(text)) return undefined;
  return sql`
    SELECT i.id, i.workflow, i.status, i.subject, i.accepted_at AS at, a.id AS undo FROM (
      SELECT id, instance_id, verb FROM millrace_actions WHERE tenant_id = ${by.tenantId} ORDER BY at DESC, id DESC LIMIT ${UNDOS}) a
    CROSS JOIN millrace_instances i ON i.id = a.instance_id
    WHERE a.verb = 'undo' AND i.tenant_id = ${by.tenantId}`;
});

/** True for 32 hex characters, which may be an instance's id or a trace id. */
function isHex(text: string): boolean {
  return /^[0-9a-f]{32}$/.test(text);
}

const job = kindOf(
  "correlation",
  ({ id }) => [id],
  ({ id }) => `/v1/correlations/${encodeURIComponent(String(id))}`,
);

/**
 * Finds jobs by correlation id. The query skips from each id to the next id in the index, so that a job with 10,000 members costs one step.
 */
const jobs = job(
  "id",
  ({ by, prefix: { from, to } }) => sql`
    WITH RECURSIVE jobs(id) AS (
      SELECT * FROM (
        SELECT correlation_id FROM millrace_instances INDEXED BY millrace_instances_by_correlation
        WHERE tenant_id = ${by.tenantId} AND correlation_id >= ${from} AND correlation_id < ${to}
        ORDER BY correlation_id LIMIT 1)
      UNION ALL
      SELECT (
        SELECT correlation_id FROM millrace_instances INDEXED BY millrace_instances_by_correlation
        WHERE tenant_id = ${by.tenantId} AND correlation_id > jobs.id AND correlation_id < ${to}
        ORDER BY correlation_id LIMIT 1)
      FROM jobs WHERE jobs.id IS NOT NULL LIMIT ${ASKED})
    SELECT id, id AS name, NULL AS status, (
      SELECT accepted_at FROM millrace_instances INDEXED BY millrace_instances_by_correlation
      WHERE tenant_id = ${by.tenantId} AND correlation_id = jobs.id ORDER BY accepted_at, id LIMIT 1) AS at
    FROM jobs WHERE id IS NOT NULL`,
);

const effect = kindOf(
  "effect",
  ({ step, item }) => [step, item],
  ({ instance_id }) => `/v1/instances/${instance_id}/effects`,
);

const effects = effect("key", ({ text, by }) => {
  const key = parseEntryKey(text);
  if (key === undefined) return undefined;
  return sql`
    SELECT ${text} AS id, e.instance_id, e.step, e.item, e.state AS status, e.updated_at AS at FROM millrace_instances i
      CROSS JOIN millrace_inbox e ON e.instance_id = i.id
    WHERE i.id = ${key.instanceId} AND i.tenant_id = ${by.tenantId}
      AND e.step = ${key.step} AND e.item = ${key.item} AND e.generation = ${key.generation}`;
});

export const instanceThatAsks = askerOf;

const approval = kindOf(
  "approval",
  ({ question }) => [question],
  ({ id }) => `/v1/approvals/${id}`,
);

const approvals = approval("id", ({ text, by }) => {
  if (askerOf(text) === "") return undefined;
  return sql`
    SELECT id, question, iif(${OVER_AS} IS NULL, state, 'over') AS status, asked_at AS at FROM millrace_approvals
    WHERE instance_id = ${askerOf(text)} AND id = ${text} AND tenant_id = ${by.tenantId}`;
});

const letter = kindOf(
  "dead_letter",
  ({ message_type, queue, reason }) => [message_type ?? queue, reason],
  ({ id }) => `/v1/dead-letters/${id}`,
);
const LETTER = fragment("id, queue, message_type, reason, state AS status, captured_at AS at");

const letterById = letter("id", ({ by, hash }) => {
  if (hash === undefined) return undefined;
  const others = by.scopes.includes("unattributed") ? 1 : 0;
  return sql`
    SELECT ${LETTER}, id AS name FROM (
      SELECT * FROM millrace_dead_letters WHERE id >= ${hash.from} AND id < ${hash.to} ORDER BY id LIMIT ${ALIKE})
    WHERE tenant_id = ${by.tenantId} OR (tenant_id IS NULL AND ${others} = 1) LIMIT ${ASKED}`;
});

const letterByKey = letter(
  "idempotency_key",
  ({ by, prefix: { from, to } }) => sql`
    SELECT ${LETTER}, idempotency_key AS name FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_key
    WHERE tenant_id = ${by.tenantId} AND idempotency_key >= ${from} AND idempotency_key < ${to}
    ORDER BY idempotency_key LIMIT ${ASKED}`,
);

/**
 * Finds dead letters of events from outside. The query accepts the key of the caller's request. The stored key of such a message is the
 * event's id, which is a hash of the caller's key.
 */
const letterByStatedKey = letter(
  "idempotency_key",
  (sought) => sql`
    SELECT ${LETTER} FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_key
    WHERE tenant_id = ${sought.by.tenantId} AND idempotency_key IN ${among(eventIds(sought))} LIMIT ${ASKED}`,
);

/**
 * Finds open dead letters by the subject of their message. SQLite uses the partial index only if the state and the expression are literals.
 */
const letterBySubject = letter(
  "subject",
  ({ text, by }) => sql`
    SELECT ${LETTER} FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_subject
    WHERE tenant_id = ${by.tenantId} AND state = 'open' AND iif(json_valid(body), substr(body->>'subject', 1, 1000), NULL) = ${text}
    ORDER BY captured_at DESC, id DESC LIMIT ${ASKED}`,
);

const letterByJob = letter(
  "correlation_id",
  ({ text, by }) => sql`
    SELECT ${LETTER} FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_correlation
    WHERE tenant_id = ${by.tenantId} AND correlation_id = ${text} ORDER BY captured_at DESC, id DESC LIMIT ${ASKED}`,
);

const emittedEvent = kindOf(
  "event",
  ({ message_type, step }) => [message_type, step],
  ({ instance_id }) => `/v1/instances/${instance_id}/events`,
);

/** Finds events that a step has emitted. The key of such an event begins with the instance's id. */
const emitted = emittedEvent("idempotency_key", ({ text, by }) => {
  const [, id] = /^([0-9a-f]{32})\.[0-9a-f]{16}$/.exec(text) ?? [];
  if (id === undefined) return undefined;
  return sql`
    SELECT ${text} AS id, 'emitted' AS status, e.instance_id, e.step, e.updated_at AS at, m.value->>'message_type' AS message_type
    FROM millrace_instances i CROSS JOIN millrace_inbox e ON e.instance_id = i.id, json_each(e.messages) m
    WHERE i.id = ${id} AND i.tenant_id = ${by.tenantId} AND m.value->>'idempotency_key' = ${text} LIMIT ${ASKED}`;
});

const keyUrl = (_: Row, { text }: Sought) => `/v1/keys/${encodeURIComponent(text)}`;
const statedEvent = kindOf("event", ({ id }, sought) => [sought.known.events[eventIds(sought).indexOf(String(id))], sought.text], keyUrl);
const freedKey = kindOf("key", ({ id }, sought) => [sought.known.workflows[instanceIds(sought).indexOf(String(id))], sought.text], keyUrl);

const stated = statedEvent(
  "idempotency_key",
  (sought) => sql`SELECT id, 'stated' AS status, stated_at AS at FROM (${selectStatedAt(eventIds(sought))})`,
);

const pruned = freedKey(
  "idempotency_key",
  (sought) => sql`
    SELECT id, iif(archived = 1, 'archived', 'pruned') AS status, pruned_at AS at FROM (${selectPruned(instanceIds(sought))})`,
);

const action = kindOf(
  "action",
  ({ verb, target }) => [verb, target],
  ({ at, id }) => `/v1/audit?cursor=${at}.${id}_&limit=1`,
);

/** Finds operator actions by id. Each result links to the page of the audit whose first entry is the action. */
const actions = action("id", ({ by, hash }) => {
  if (hash === undefined) return undefined;
  return sql`
    SELECT id, id AS name, verb, target, result AS status, at FROM (
      SELECT * FROM millrace_actions WHERE id >= ${hash.from} AND id < ${hash.to} ORDER BY id LIMIT ${ALIKE})
    WHERE tenant_id = ${by.tenantId} LIMIT ${ASKED}`;
});

const schedule = kindOf(
  "schedule",
  ({ name, command }) => [name, command],
  ({ name }) => `/v1/schedules/${encodeURIComponent(String(name))}`,
);

const schedules = schedule(
  "name",
  ({ by, prefix: { from, to } }) => sql`
    SELECT name AS id, name, command, state AS status, changed_at AS at FROM millrace_schedules
    WHERE tenant_id = ${by.tenantId} AND name >= ${from} AND name < ${to} ORDER BY name LIMIT ${ASKED}`,
);

/** The finders of the engine, in the order of their results among equal matches. */
export const ENGINE_FINDERS: readonly Finder[] = [
  ...[byId, byKey, byUndo, recent],
  ...[jobs, effects, approvals, letterById, letterByKey, letterByStatedKey, letterBySubject, letterByJob],
  ...[emitted, stated, pruned, actions, schedules],
];
