/** A range of instances to create, and the tenant of most of these instances. */
export interface Portion {
  /** The tenant of 70 % of the instances. Other tenants have the remaining instances. */
  tenantId: string;
  /** Eight hex characters at the start of the ids, unique per run of the script. */
  mark: string;
  from: number;
  to: number;
  /** The total number of instances. The times of the instances are spread over 20 days. */
  of: number;
}

/** Number of instances that one statement creates. D1 aborts a statement after 30 s. */
export const PORTION = 25_000;

const DAYS = 20;

/**
 * SQL that fills the engine's tables with plausible data: instances of four workflows, in jobs of eight instances, with three journal
 * entries for each instance. Every tenth instance has a dead letter, some instances are stopped, and a few instances are running. SQLite
 * generates the rows from numbers. The ids are distributed like hashes.
 */
export function fillStatements({ tenantId, mark, from, to, of }: Portion): string[] {
  const text = (value: string) => `'${value.replaceAll("'", "''")}'`;
  const numbers = (every = 1) =>
    `WITH RECURSIVE n(i) AS (SELECT ${Math.ceil((from + 1) / every) * every} UNION ALL SELECT i + ${every} FROM n WHERE i + ${every} <= ${to})`;
  const some = (every: number) => `FROM n WHERE i <= ${to} AND i % ${every} = 0`;
  // The ids are distinct, because multiplication by an odd number is a permutation of the 32-bit numbers.
  const mixed = (i: string, factor: number) => `printf('%08x', (${i} * ${factor}) & 4294967295)`;
  const id = (i = "i") => `(${mixed(i, 2654435761)} || ${text(mark)} || ${mixed(i, 2246822519)} || ${mixed(i, 3266489917)})`;
  const hash = `(${id()} || ${id()})`;
  const tenant = `iif(i % 10 < 7, ${text(tenantId)}, ${text(`${tenantId}-`)} || (i % 3))`;
  const at = `CAST((unixepoch() - ${DAYS * 86_400}) * 1000 + i * ${Math.floor((DAYS * 86_400_000) / of)} AS INTEGER)`;
  const workflow = `CASE WHEN i % 20 < 9 THEN 'research-keyword' WHEN i % 20 < 15 THEN 'generate-article' WHEN i % 20 < 19 THEN 'publish-article' ELSE 'post-to-social' END`;
  const type = `CASE WHEN i % 20 < 9 THEN 'research.requested' WHEN i % 20 < 15 THEN 'research.completed' WHEN i % 20 < 19 THEN 'content.publish' ELSE 'social.create' END`;
  const status = `CASE i % 1000 WHEN 0 THEN 'errored' WHEN 1 THEN 'errored' WHEN 2 THEN 'terminated' WHEN 3 THEN 'dead' WHEN 4 THEN 'skipped'
    WHEN 5 THEN iif(i % 10000 = 5, 'in_doubt', 'complete') WHEN 6 THEN 'running' WHEN 7 THEN 'waiting' ELSE 'complete' END`;
  const job = `('job-' || ${text(mark)} || '-' || (i / 8))`;
  const key = `('acme/first/word-' || ${text(mark)} || '-' || i)`;
  const cause = `iif(i % 8 = 0, 'request/' || i, ${id("(i - 1)")} || '/put page')`;
  const envelope = `json_object('schema_version', 1, 'message_type', ${type}, 'kind', 'command', 'source', 'fill', 'correlation_id', ${job},
    'causation_id', ${cause}, 'idempotency_key', ${key}, 'subject', 'acme/word-' || (i % 5000), 'tenant_id', ${tenant},
    'created_at', '2026-10-01T09:30:00.000Z', 'payload_inline', json_object('brand', 'acme', 'keyword', 'word-' || i),
    'traceparent', '00-' || ${id()} || '-b7ad6b7169203331-01')`;
  const far = "(unixepoch() + 86400) * 1000";
  return [
    `INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint,
       envelope, status, deliveries, error, accepted_at, updated_at, check_at, seen)
     ${numbers()} SELECT ${id()}, ${tenant}, ${workflow}, ${type}, ${key}, ${job}, ${cause}, 'acme/word-' || (i % 5000), ${hash},
       ${envelope}, ${status}, 1, iif(i % 1000 < 2, '{"step":"put page","code":"step_failed","message":"It broke.","attempts":3}', NULL),
       ${at}, ${at} + 4000, iif(i % 1000 IN (6, 7), ${far}, NULL), iif(i % 1000 IN (6, 7), 1, 0) FROM n`,
    ...["decide", "put page", "announce"].map(
      (step, position) =>
        `INSERT INTO millrace_inbox (instance_id, step, position, class, state, epoch, token, output, messages, updated_at)
         ${numbers()} SELECT ${id()}, '${step}', ${position}, ${position === 2 ? `iif(i % 10000 = 5, 'once', 'commit')` : "'commit'"},
           ${position === 2 ? `iif(i % 10000 = 5, 'in_doubt', 'done')` : "'done'"}, 1, ${hash}, '{"url":"/pages/acme/word"}',
           ${position === 1 ? `iif(i % 8 < 7, json_array(json_object('kind', 'command', 'message_type', 'content.publish', 'idempotency_key', 'acme/first/word-' || ${text(mark)} || '-' || (i + 1), 'causation_id', ${id()} || '/put page', 'subject', 'acme', 'created_at', '2026-10-01T09:30:00.000Z')), NULL)` : "NULL"},
           ${at} + ${position + 1}000 FROM n`,
    ),
    `INSERT INTO millrace_dead_letters (id, tenant_id, queue, message_type, idempotency_key, correlation_id, instance_id, body, reason, error,
       attempts, first_at, captured_at, state, settled_at)
     ${numbers(10)} SELECT ${id()}, ${tenant.replaceAll("i % 10 < 7", "i / 10 % 10 < 7")},
       CASE i / 10 % 3 WHEN 0 THEN 'gatherfeed-commands' WHEN 1 THEN 'publish-commands' ELSE 'brand-events' END, ${type}, ${key}, ${job},
       NULL, ${envelope}, CASE i / 10 % 5 WHEN 0 THEN 'invalid_payload' WHEN 1 THEN 'idempotency_key_reused' ELSE 'exhausted' END,
       'It broke.', 4, ${at}, ${at} + 60000, CASE i / 10 % 20 WHEN 0 THEN 'open' WHEN 1 THEN 'skipped' ELSE 'replayed' END, ${at} + 90000
     ${some(10)}`,
    `INSERT INTO millrace_approvals (instance_id, step, id, tenant_id, workflow, question, state, otherwise, due_at, asked_at, decided_at)
     ${numbers(50)} SELECT ${id()}, 'ask', ${id()} || '-0a1b2c3d4e5f6071', ${tenant.replaceAll("i % 10 < 7", "i / 50 % 10 < 7")}, 'publish-article',
       'May it be published?', iif(i % 5000 = 0, 'pending', 'approved'), 'reject', ${far}, ${at}, iif(i % 5000 = 0, NULL, ${at} + 1000)
     ${some(50)}`,
    `INSERT INTO millrace_actions (id, tenant_id, actor, verb, target, instance_id, reason, result, at, applied_at)
     ${numbers(100)} SELECT ${id()}, ${tenant.replaceAll("i % 10 < 7", "i / 100 % 10 < 7")}, 'ada', 'retry', ${id()}, ${id()}, 'because', 'applied',
       ${at}, ${at} ${some(100)}`,
    `INSERT INTO millrace_tombstones (id, fingerprint, place)
     ${numbers(5)} SELECT unhex(substr(${hash}, 3, 32)), unhex(substr(${hash}, 1, 12)), 1000 * (unixepoch() - 5 * 86400) ${some(5)}`,
    `INSERT INTO millrace_stated_events (id, fingerprint, said, correlation_id, stated_at)
     ${numbers(20)} SELECT unhex(substr(${hash}, 5, 32)), unhex(${hash}), unhex(${id()}), NULL, ${at} ${some(20)}`,
  ];
}
