import { fragment, now, type Statement, sql } from "../contract/sql.ts";
import { OTHERS } from "../store/alerts.ts";
import { query } from "../store/d1/retry.ts";
import { selectEscalated } from "../store/dead-letters.ts";
import { EXAMPLES, MAX_COUNTED } from "../store/health.ts";
import { selectTripped } from "../store/pauses.ts";
import type { Reading } from "./observations.ts";
import { INSTANCES_ERRORED, LETTERS_ARRIVED, LETTERS_ESCALATED, WORKFLOWS_TRIPPED } from "./rules.ts";

/** The event gauges count the events of the last five minutes. */
const WINDOW_MS = 300_000;

/** Maximum number of escalated dead letters with one sample each; all further escalated dead letters share one alert. */
const MAX_ESCALATED = 1000;

interface Escalated {
  readonly id: string;
  readonly queue: string;
  readonly reason: string;
  readonly at: number;
}

interface Tripped {
  readonly workflow: string;
  readonly since: number;
  readonly example: string | null;
}

interface Group {
  readonly one: string;
  readonly other: string;
  readonly value: number;
  readonly fresh: number;
  readonly lastAt: number;
  readonly examples: string;
}

/**
 * The dead letters that arrived and the instances that failed in the last five minutes, of all tenants, grouped by names from code, with
 * the ids of the first three. Events that an open alert has counted are not fresh, so during an outage each reading counts only the newest
 * events. Each open dead letter that an operator has escalated also has one sample, and so has each pause by a breaker.
 */
export async function readOccurrences(db: D1Database): Promise<Reading[]> {
  const [letters, errored, escalated, tripped] = await Promise.all([
    query<Group>(db, LETTERS),
    query<Group>(db, ERRORED),
    query<Escalated>(db, selectEscalated(MAX_ESCALATED)),
    query<Tripped>(db, selectTripped(MAX_COUNTED)),
  ]);
  return [
    ...tripped.map(({ workflow, since: lastAt, example }) => {
      return { name: WORKFLOWS_TRIPPED, labels: { workflow }, value: 1, examples: example === null ? [] : [example], lastAt };
    }),
    ...escalated.map(({ id, queue, reason, at: lastAt }) => {
      const labels = { dead_letter: id, queue, reason };
      return { name: LETTERS_ESCALATED, labels, value: 1, examples: [id], lastAt };
    }),
    ...letters.map((group) => asReading(LETTERS_ARRIVED, group, ({ one, other }) => ({ queue: one, reason: other }))),
    ...errored.map((group) => asReading(INSTANCES_ERRORED, group, ({ one, other }) => ({ workflow: one, code: other }))),
  ];
}

function asReading(name: string, group: Group, labelsOf: (group: Group) => Reading["labels"]): Reading {
  const { value, fresh, lastAt, examples } = group;
  return { name, labels: labelsOf(group), value, fresh, lastAt, examples: JSON.parse(examples) };
}

const LETTERS = grouped(
  "dead_letter_arrived",
  ["queue", "reason"],
  sql`
    SELECT id, captured_at AS at, queue AS one, reason AS other FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_time
    WHERE state = 'open' AND captured_at > ${now} - ${WINDOW_MS} ORDER BY captured_at DESC LIMIT ${MAX_COUNTED}`,
);

const ERRORED = grouped(
  "instances_errored",
  ["workflow", "code"],
  sql`
    SELECT id, updated_at AS at, workflow AS one, coalesce(error->>'code', 'unknown') AS other
      FROM millrace_instances INDEXED BY millrace_instances_errored
    WHERE status = 'errored' AND updated_at > ${now} - ${WINDOW_MS} ORDER BY updated_at DESC LIMIT ${MAX_COUNTED}`,
);

/** Groups events. Events that the group's open alert has not counted yet are fresh. */
function grouped(rule: string, [one, other]: readonly [string, string], happened: Statement): Statement {
  const labels = fragment(
    [one, other]
      .toSorted()
      .map((label) => `'${label}', ${label === one ? "one" : "other"}`)
      .join(", "),
  );
  const seenOf = (text: Statement) => sql`(SELECT last_at FROM millrace_alerts
    WHERE rule = ${rule} AND labels = ${text} AND state <> 'resolved')`;
  const others = JSON.stringify(Object.fromEntries([one, other].toSorted().map((label) => [label, OTHERS])));
  return sql`
    SELECT one, other, count(*) AS value, sum(at > seen) AS fresh, max(at) AS lastAt,
      json_group_array(id) FILTER (WHERE place <= 3) AS examples
    FROM (
      SELECT id, at, one, other, row_number() OVER (PARTITION BY one, other ORDER BY at, id) AS place,
        coalesce(${seenOf(sql`json_object(${labels})`)}, ${seenOf(sql`${others}`)}, 0) AS seen
      FROM (${happened}))
    GROUP BY one, other`;
}

/** Adds example ids of affected instances to gauges above 0, where the database can list such instances. */
export async function withExamples(db: D1Database, gauges: readonly Reading[]): Promise<Reading[]> {
  const names = (Object.keys(EXAMPLES) as (keyof typeof EXAMPLES)[]).filter((one) =>
    gauges.some(({ name, value }) => name === one && value > 0),
  );
  const found = await Promise.all(
    names.map(async (name) => {
      const rows = await query<{ workflow: string; ids: string }>(db, EXAMPLES[name]);
      return [name as string, new Map(rows.map(({ workflow, ids }) => [workflow, JSON.parse(ids) as string[]]))] as const;
    }),
  );
  const byGauge = new Map(found);
  return gauges.map((reading) => {
    const examples = byGauge.get(reading.name)?.get(reading.labels.workflow ?? "");
    return examples ? { ...reading, examples } : reading;
  });
}
