import type { EngineEnv } from "../../contract/bindings.ts";
import { among, type Statement, sql } from "../../contract/sql.ts";
import { namedBatch } from "../../store/d1/named.ts";
import type { RecordedClass } from "../../store/inbox/classes.ts";
import type { InstanceStatus } from "../../store/instances/status.ts";
import type { Spent } from "./spending.ts";

/** Number of a message's characters that a queue bills as one operation. */
const PORTION_CHARACTERS = 64_000;

/** The counts of an instance's inbox entries of one class, and of the attempts of these entries. */
export interface StoredEntries {
  readonly class: RecordedClass;
  readonly entries: number;
  /** Entries with an outcome. */
  readonly done: number;
  readonly inDoubt: number;
  /** The total number of claims and changes of these entries. Each attempt after the first adds one. */
  readonly epochs: number;
  /** Entries of inline steps, which the platform does not bill as steps. */
  readonly inline: number;
  readonly messages: number;
  /** The size of the messages of these entries, in portions of 64 KB that a queue bills. Each message has at least one portion. */
  readonly portions: number;
}

/** The database's records of an instance that determine its cost. */
export interface StoredUse {
  readonly id: string;
  readonly workflow: string;
  readonly status: InstanceStatus;
  readonly run: number;
  readonly deliveries: number;
  /** The queue of the message that started the instance; null if an event started the instance. */
  readonly queue: string | null;
  /** True if a step of another instance sent the message of this instance. Then the sending instance counts the message. */
  readonly emitted: boolean;
  readonly payloadByReference: boolean;
  readonly hasDeadline: boolean;
  readonly isDelayed: boolean;
  /** The number of the instance's tags. */
  readonly tags: number;
  /** True if the end of each run is sent to a callback URL. */
  readonly calls: boolean;
  /** The usage of each run of the instance, by the run's number. Null before the first run ends, and if the usage was not counted. */
  readonly spent: Readonly<Record<string, Spent>> | null;
  readonly classes: readonly StoredEntries[];
  readonly waits: { readonly asked: number; readonly taken: number; readonly early: number; readonly over: number };
  readonly questions: { readonly asked: number; readonly answered: number; readonly over: number };
}

/** Reads the records of instances in one round trip. D1 reads a row for each entry, wait and question. */
export async function storedUse(env: Pick<EngineEnv, "DB">, ids: readonly string[]): Promise<StoredUse[]> {
  if (ids.length === 0) return [];
  const { instances, entries, waits, questions } = await namedBatch(env.DB, {
    instances: selectInstances(ids),
    entries: selectEntries(ids),
    waits: selectWaits(ids),
    questions: selectQuestions(ids),
  });
  const byId = [entries, waits, questions].map((rows) => Map.groupBy(rows, ({ id }) => String(id)));
  const of = <T>(which: number, id: unknown) => (byId[which]?.get(String(id)) ?? []) as T[];
  return instances.map((row) => ({
    id: String(row.id),
    workflow: String(row.workflow),
    status: row.status as InstanceStatus,
    run: Number(row.run),
    deliveries: Number(row.deliveries),
    queue: row.queue as string | null,
    emitted: row.emitted === 1,
    payloadByReference: row.payloadByReference === 1,
    hasDeadline: row.hasDeadline === 1,
    calls: row.calls === 1,
    isDelayed: row.isDelayed === 1,
    tags: Number(row.tags),
    spent: spentIn(row.spent),
    classes: of<StoredEntries>(0, row.id),
    waits: of<StoredUse["waits"]>(1, row.id)[0] ?? { asked: 0, taken: 0, early: 0, over: 0 },
    questions: of<StoredUse["questions"]>(2, row.id)[0] ?? { asked: 0, answered: 0, over: 0 },
  }));
}

/** Reads the stored usage of an instance. A value that the engine did not write is ignored. */
function spentIn(text: unknown): StoredUse["spent"] {
  try {
    const runs: unknown = JSON.parse(String(text));
    const isCounted = (run: unknown) =>
      typeof run === "object" &&
      run !== null &&
      typeof (run as Spent).steps === "number" &&
      Object.values(run).every((value) => typeof value === "number" && value >= 0);
    return typeof runs === "object" && runs !== null && Object.values(runs).every(isCounted) ? (runs as StoredUse["spent"]) : null;
  } catch {
    return null;
  }
}

function selectInstances(ids: readonly string[]): Statement {
  return sql`
    SELECT id, workflow, status, run, deliveries, spent, queue, envelope->>'payload_ref' IS NOT NULL AS payloadByReference,
      envelope->>'source' LIKE 'workflow:%' AS emitted, must_end_by IS NOT NULL AS hasDeadline, callback IS NOT NULL AS calls,
      due_at IS NOT NULL AS isDelayed,
      coalesce(json_array_length(envelope, '$.tags'), 0) AS tags
    FROM millrace_instances WHERE id IN ${among(ids)}`;
}

/**
 * The entries of instances by class. Later generations of undone effects are excluded, because the runs that wrote these generations have
 * counted them.
 */
function selectEntries(ids: readonly string[]): Statement {
  return sql`
    SELECT e.instance_id AS id, e.class, count(*) AS entries, sum(e.state IN ('done', 'superseded', 'confirmed')) AS done,
      sum(e.state = 'in_doubt') AS inDoubt, sum(e.epoch - (e.state = 'superseded')) AS epochs,
      sum(e.ended_at IS NOT NULL) AS inline,
      sum((SELECT coalesce(sum(coalesce(m.value->>'omitted', 1)), 0) FROM json_each(e.messages) m)) AS messages,
      sum((SELECT coalesce(sum(coalesce(m.value->>'omitted', 1 + CAST(length(m.value) / ${PORTION_CHARACTERS} AS INTEGER))), 0)
        FROM json_each(e.messages) m)) AS portions
    FROM millrace_inbox e
    WHERE e.instance_id IN ${among(ids)} AND NOT (e.state = 'failed' AND e.token = 'operator' AND e.epoch = 1)
    GROUP BY e.instance_id, e.class`;
}

function selectWaits(ids: readonly string[]): Statement {
  return sql`
    SELECT instance_id AS id, count(*) AS asked, count(signal_id) AS taken, count(over_at) AS over,
      sum(EXISTS (SELECT 1 FROM millrace_signals
        WHERE millrace_signals.id = millrace_waits.signal_id AND millrace_signals.received_at <= millrace_waits.since_at)) AS early
    FROM millrace_waits WHERE instance_id IN ${among(ids)} GROUP BY instance_id`;
}

function selectQuestions(ids: readonly string[]): Statement {
  return sql`
    SELECT instance_id AS id, count(*) AS asked, count(decided_by) AS answered, sum(decided_at IS NOT NULL AND decided_by IS NULL) AS over
    FROM millrace_approvals WHERE instance_id IN ${among(ids)} GROUP BY instance_id`;
}
