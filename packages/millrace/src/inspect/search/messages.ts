import { instanceId } from "../../contract/ids.ts";
import { among, fragment, sql } from "../../contract/sql.ts";
import { statedId } from "../../intake/accept/stated.ts";
import { selectStatedAt } from "../../store/stated-events.ts";
import { selectPruned } from "../../store/tombstones.ts";
import { ASKED, beginningWith, type Finder, hashBeginningWith, matchOf, titleOf } from "./finder.ts";

const MORE_LETTERS = 100;

const LETTER = fragment("id, queue, message_type, reason, state, captured_at");

/** Finds dead letters by the field `by`. A row with a `name` matches by this name, and any other row matches exactly. */
function letterBy(by: string, look: Finder["look"]): Finder {
  const read: Finder["read"] = (row, sought) => ({
    id: String(row.id),
    title: titleOf(row.message_type ?? row.queue, row.reason),
    status: String(row.state),
    at: Number(row.captured_at),
    url: `/v1/dead-letters/${row.id}`,
    by,
    match: row.name === undefined ? "exact" : matchOf(row.name, sought),
  });
  return { kind: "dead_letter", look, read };
}

export const letterById = letterBy("id", ({ text, by }) => {
  const range = hashBeginningWith(text);
  const others = by.scopes.includes("unattributed") ? 1 : 0;
  return (
    range &&
    sql`
      SELECT ${LETTER}, id AS name FROM (
        SELECT * FROM millrace_dead_letters WHERE id >= ${range.from} AND id < ${range.to} ORDER BY id LIMIT ${MORE_LETTERS})
      WHERE tenant_id = ${by.tenantId} OR (tenant_id IS NULL AND ${others} = 1) LIMIT ${ASKED}`
  );
});

export const letterByKey = letterBy("idempotency_key", ({ text, by }) => {
  const { from, to } = beginningWith(text);
  return sql`
    SELECT ${LETTER}, idempotency_key AS name FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_key
    WHERE tenant_id = ${by.tenantId} AND idempotency_key >= ${from} AND idempotency_key < ${to}
    ORDER BY idempotency_key LIMIT ${ASKED}`;
});

/**
 * Finds dead letters of events from outside. The query accepts the key of the caller's request. The stored key of such a message is the
 * event's id, which is a hash of the caller's key.
 */
export const letterByStatedKey = letterBy(
  "idempotency_key",
  ({ text, by, known }) => sql`
    SELECT ${LETTER} FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_key
    WHERE tenant_id = ${by.tenantId} AND idempotency_key IN ${among(known.events.map((type) => statedId(by.tenantId, type, text)))}
    LIMIT ${ASKED}`,
);

/**
 * Finds open dead letters by the subject of their message. SQLite uses the partial index only if the state and the expression are literals.
 */
export const letterBySubject = letterBy(
  "subject",
  ({ text, by }) => sql`
    SELECT ${LETTER} FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_subject
    WHERE tenant_id = ${by.tenantId} AND state = 'open' AND iif(json_valid(body), substr(body->>'subject', 1, 1000), NULL) = ${text}
    ORDER BY captured_at DESC, id DESC LIMIT ${ASKED}`,
);

export const letterByJob = letterBy(
  "correlation_id",
  ({ text, by }) => sql`
    SELECT ${LETTER} FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_correlation
    WHERE tenant_id = ${by.tenantId} AND correlation_id = ${text} ORDER BY captured_at DESC, id DESC LIMIT ${ASKED}`,
);

/** Finds events that a step has emitted. The key of such an event begins with the instance's id. */
export const emitted: Finder = {
  kind: "event",
  look: ({ text, by }) => {
    const [, id] = /^([0-9a-f]{32})\.[0-9a-f]{16}$/.exec(text) ?? [];
    return id === undefined
      ? undefined
      : sql`
        SELECT e.instance_id, e.step, e.updated_at, m.value->>'message_type' AS message_type
        FROM millrace_instances i CROSS JOIN millrace_inbox e ON e.instance_id = i.id, json_each(e.messages) m
        WHERE i.id = ${id} AND i.tenant_id = ${by.tenantId} AND m.value->>'idempotency_key' = ${text} LIMIT ${ASKED}`;
  },
  read: (row, { text }) => ({
    id: text,
    title: titleOf(row.message_type, row.step),
    status: "emitted",
    at: Number(row.updated_at),
    url: `/v1/instances/${row.instance_id}/events`,
    by: "idempotency_key",
    match: "exact",
  }),
};

export const stated: Finder = {
  kind: "event",
  look: ({ text, by, known }) => selectStatedAt(known.events.map((type) => statedId(by.tenantId, type, text))),
  read: (row, { text, by, known }) => ({
    id: String(row.id),
    title: titleOf(
      known.events.find((type) => statedId(by.tenantId, type, text) === row.id),
      text,
    ),
    status: "stated",
    at: Number(row.stated_at),
    url: `/v1/keys/${encodeURIComponent(text)}`,
    by: "idempotency_key",
    match: "exact",
  }),
};

export const pruned: Finder = {
  kind: "key",
  look: ({ text, by, known }) => selectPruned(known.workflows.map((workflow) => instanceId(by.tenantId, workflow, text))),
  read: (row, { text, by, known }) => ({
    id: String(row.id),
    title: titleOf(
      known.workflows.find((workflow) => instanceId(by.tenantId, workflow, text) === row.id),
      text,
    ),
    status: "pruned",
    at: Number(row.pruned_day) * 86_400_000,
    url: `/v1/keys/${encodeURIComponent(text)}`,
    by: "idempotency_key",
    match: "exact",
  }),
};
