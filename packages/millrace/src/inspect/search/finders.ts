import { instanceId, parseEntryKey } from "../../contract/ids.ts";
import { among, fragment, type Statement, sql } from "../../contract/sql.ts";
import { statedId } from "../../intake/accept/stated.ts";
import { askerOf } from "../../signals/approval.ts";
import { OVER_AS } from "../../store/approvals.ts";
import { selectStatedAt } from "../../store/stated-events.ts";
import { selectPruned } from "../../store/tombstones.ts";
import { ASKED, beginningWith, type Finder, hashBeginningWith, matchOf, type Sought, titleOf } from "./finder.ts";

/** Maximum number of hashes with the same prefix that a search reads, of all tenants. Other tenants' hashes are then removed. */
const ALIKE = 100;

/** Number of newest instances that are searched for a subject or a trace, because an index would cost a written row per instance. */
export const LOOKED_BACK = 2000;

type Range = ReturnType<typeof beginningWith>;
/** `prefix`: the range of names that begin with the search text. `hash`: the same of hashes; undefined if the text cannot begin a hash. */
type Look = (sought: Sought & { readonly prefix: Range; readonly hash: Range | undefined }) => Statement | undefined;

/**
 * Makes a finder of objects by one field. The finder's statement selects `id`, `status`, `at`, and `title` as a JSON list of words. A row
 * with a `name` matches by this name, and any other row matches exactly. A column `by` overrides the field. In `url`, a name in braces is
 * replaced by the column with this name.
 */
function finder(kind: string, url: string, by: string, look: Look): Finder {
  return {
    kind,
    look: (sought) => look({ ...sought, prefix: beginningWith(sought.text), hash: hashBeginningWith(sought.text) }),
    read: (row, sought) => ({
      id: String(row.id),
      title: titleOf(...JSON.parse(String(row.title))),
      status: row.status === null ? null : String(row.status),
      at: Number(row.at),
      url: url.replace(/\{(\w+)\}/g, (_, column: string) => encodeURIComponent(String(row[column]))),
      by: String(row.by ?? by),
      match: row.name === undefined ? "exact" : matchOf(row.name, sought),
    }),
  };
}

const idsOf = (names: readonly string[], idOf: (name: string) => string) => Object.fromEntries(names.map((name) => [idOf(name), name]));
/** The names of the deployment's events by the id that an event with this key has. */
const eventIds = ({ text, by, known }: Sought) => idsOf(known.events, (type) => statedId(by.tenantId, type, text));
/** The names of the deployment's workflows by the id that an instance with this key has. */
const instanceIds = ({ text, by, known }: Sought) => idsOf(known.workflows, (workflow) => instanceId(by.tenantId, workflow, text));

const INSTANCE = fragment("id, status, json_array(workflow, subject) AS title, accepted_at AS at");
const INSTANCE_URL = "/v1/instances/{id}";

/** The ids of an instance's events, questions and messages begin with its id. */
const OF_INSTANCE = /^([0-9a-f]{32})(?:[./-].*)?$/s;

export const byId = finder("instance", INSTANCE_URL, "id", ({ text, by, hash }) => {
  const [, id] = OF_INSTANCE.exec(text.toLowerCase()) ?? [];
  if (id !== undefined) return sql`SELECT ${INSTANCE} FROM millrace_instances WHERE id = ${id} AND tenant_id = ${by.tenantId}`;
  if (hash === undefined) return undefined;
  return sql`
    SELECT ${INSTANCE}, id AS name
    FROM (SELECT * FROM millrace_instances WHERE id >= ${hash.from} AND id < ${hash.to} ORDER BY id LIMIT ${ALIKE})
    WHERE tenant_id = ${by.tenantId} LIMIT ${ASKED}`;
});

/** A key has a separate id for each workflow. */
const byKey = finder("instance", INSTANCE_URL, "idempotency_key", (sought) => {
  const ids = Object.keys(instanceIds(sought));
  return sql`SELECT ${INSTANCE} FROM millrace_instances WHERE id IN ${among(ids)} AND +tenant_id = ${sought.by.tenantId}`;
});

const recent = finder("instance", INSTANCE_URL, "subject", ({ text, by }) => {
  const isTrace = /^[0-9a-f]{32}$/.test(text);
  return sql`
    SELECT ${INSTANCE}, iif(subject = ${text}, 'subject', 'trace_id') AS by FROM (
      SELECT * FROM millrace_instances INDEXED BY millrace_instances_by_time WHERE tenant_id = ${by.tenantId}
      ORDER BY accepted_at DESC, id DESC LIMIT ${LOOKED_BACK})
    WHERE subject = ${text} ${isTrace ? sql`OR substr(envelope->>'traceparent', 1, 36) = ${`00-${text}-`}` : sql``} LIMIT ${ASKED}`;
});

/** Selects the acceptance time of the oldest searched instance; no row if all instances were searched. */
export const lookedBackTo = ({ by }: Pick<Sought, "by">) => sql`
  SELECT accepted_at AS at FROM millrace_instances INDEXED BY millrace_instances_by_time WHERE tenant_id = ${by.tenantId}
  ORDER BY accepted_at DESC, id DESC LIMIT 1 OFFSET ${LOOKED_BACK - 1}`;

/** Skips from each id to the next id in the index, so that a job with 10,000 members costs one step. */
const jobs = finder("correlation", "/v1/correlations/{id}", "id", ({ by, prefix: { from, to } }) => {
  return sql`
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
    SELECT id, id AS name, NULL AS status, json_array(id) AS title, (
      SELECT accepted_at FROM millrace_instances INDEXED BY millrace_instances_by_correlation
      WHERE tenant_id = ${by.tenantId} AND correlation_id = jobs.id ORDER BY accepted_at, id LIMIT 1) AS at
    FROM jobs WHERE id IS NOT NULL`;
});

const effects = finder("effect", "/v1/instances/{instance_id}/effects", "key", ({ text, by }) => {
  const key = parseEntryKey(text);
  if (key === undefined) return undefined;
  return sql`
    SELECT ${text} AS id, e.instance_id, json_array(e.step, e.item) AS title, e.state AS status, e.updated_at AS at
    FROM millrace_instances i CROSS JOIN millrace_inbox e ON e.instance_id = i.id
    WHERE i.id = ${key.instanceId} AND i.tenant_id = ${by.tenantId}
      AND e.step = ${key.step} AND e.item = ${key.item} AND e.generation = ${key.generation}`;
});

export const instanceThatAsks = askerOf;

const approvals = finder("approval", "/v1/approvals/{id}", "id", ({ text, by }) => {
  if (askerOf(text) === "") return undefined;
  return sql`
    SELECT id, json_array(question) AS title, iif(${OVER_AS} IS NULL, state, 'ended') AS status, asked_at AS at FROM millrace_approvals
    WHERE instance_id = ${askerOf(text)} AND id = ${text} AND tenant_id = ${by.tenantId}`;
});

const LETTER = fragment("id, state AS status, json_array(coalesce(message_type, queue), reason) AS title, captured_at AS at");
const letter = (by: string, look: Look) => finder("dead_letter", "/v1/dead-letters/{id}", by, look);

const letterById = letter("id", ({ by, hash }) => {
  if (hash === undefined) return undefined;
  const others = by.scopes.includes("unattributed") ? 1 : 0;
  return sql`
    SELECT ${LETTER}, id AS name FROM (
      SELECT * FROM millrace_dead_letters WHERE id >= ${hash.from} AND id < ${hash.to} ORDER BY id LIMIT ${ALIKE})
    WHERE tenant_id = ${by.tenantId} OR (tenant_id IS NULL AND ${others} = 1) LIMIT ${ASKED}`;
});

const letterByKey = letter("idempotency_key", ({ by, prefix: { from, to } }) => {
  return sql`
    SELECT ${LETTER}, idempotency_key AS name FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_key
    WHERE tenant_id = ${by.tenantId} AND idempotency_key >= ${from} AND idempotency_key < ${to}
    ORDER BY idempotency_key LIMIT ${ASKED}`;
});

/** Finds dead letters of events from outside. Their stored key is the event's id, a hash of the caller's key. */
const letterByStatedKey = letter("idempotency_key", (sought) => {
  const ids = Object.keys(eventIds(sought));
  return sql`
    SELECT ${LETTER} FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_key
    WHERE tenant_id = ${sought.by.tenantId} AND idempotency_key IN ${among(ids)} LIMIT ${ASKED}`;
});

/** Only open dead letters: SQLite uses the partial index only if the state and the expression are literals. */
const letterBySubject = letter("subject", ({ text, by }) => {
  return sql`
    SELECT ${LETTER} FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_subject
    WHERE tenant_id = ${by.tenantId} AND state = 'open' AND iif(json_valid(body), substr(body->>'subject', 1, 1000), NULL) = ${text}
    ORDER BY captured_at DESC, id DESC LIMIT ${ASKED}`;
});

const letterByJob = letter("correlation_id", ({ text, by }) => {
  return sql`
    SELECT ${LETTER} FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_correlation
    WHERE tenant_id = ${by.tenantId} AND correlation_id = ${text} ORDER BY captured_at DESC, id DESC LIMIT ${ASKED}`;
});

/** The key of an event that a step has emitted begins with the instance's id. */
const emitted = finder("event", "/v1/instances/{instance_id}/events", "idempotency_key", ({ text, by }) => {
  const [, id] = /^([0-9a-f]{32})\.[0-9a-f]{16}$/.exec(text) ?? [];
  if (id === undefined) return undefined;
  return sql`
    SELECT ${text} AS id, 'emitted' AS status, e.instance_id, json_array(m.value->>'message_type', e.step) AS title, e.updated_at AS at
    FROM millrace_instances i CROSS JOIN millrace_inbox e ON e.instance_id = i.id, json_each(e.messages) m
    WHERE i.id = ${id} AND i.tenant_id = ${by.tenantId} AND m.value->>'idempotency_key' = ${text} LIMIT ${ASKED}`;
});

const stated = finder("event", "/v1/keys/{key}", "idempotency_key", (sought) => {
  const ids = eventIds(sought);
  return sql`
    SELECT id, ${sought.text} AS key, json_array(${JSON.stringify(ids)}->>id, ${sought.text}) AS title, 'stated' AS status, stated_at AS at
    FROM (${selectStatedAt(Object.keys(ids))})`;
});

const pruned = finder("key", "/v1/keys/{key}", "idempotency_key", (sought) => {
  const ids = instanceIds(sought);
  return sql`
    SELECT id, ${sought.text} AS key, json_array(${JSON.stringify(ids)}->>id, ${sought.text}) AS title,
      iif(archived = 1, 'archived', 'pruned') AS status, pruned_at AS at
    FROM (${selectPruned(Object.keys(ids))})`;
});

/** A result links to the page of the audit that begins with the action. */
const actions = finder("action", "/v1/audit?cursor={at}.{id}_&limit=1", "id", ({ by, hash }) => {
  if (hash === undefined) return undefined;
  return sql`
    SELECT id, id AS name, json_array(verb, target) AS title, result AS status, at FROM (
      SELECT * FROM millrace_actions WHERE id >= ${hash.from} AND id < ${hash.to} ORDER BY id LIMIT ${ALIKE})
    WHERE tenant_id = ${by.tenantId} LIMIT ${ASKED}`;
});

const schedules = finder("schedule", "/v1/schedules/{name}", "name", ({ by, prefix: { from, to } }) => {
  return sql`
    SELECT name AS id, name, json_array(name, command) AS title, state AS status, changed_at AS at FROM millrace_schedules
    WHERE tenant_id = ${by.tenantId} AND name >= ${from} AND name < ${to} ORDER BY name LIMIT ${ASKED}`;
});

/** The finders of the engine, in the order of their results among equal matches. */
export const ENGINE_FINDERS: readonly Finder[] = [
  ...[byId, byKey, recent],
  ...[jobs, effects, approvals, letterById, letterByKey, letterByStatedKey, letterBySubject, letterByJob],
  ...[emitted, stated, pruned, actions, schedules],
];
