import { type EngineEnv, isElsewhere, queueBinding, workflowBinding } from "../contract/bindings.ts";
import { readCells } from "../contract/cells.ts";
import { crashPoint } from "../contract/crash-points.ts";
import { NOWHERE } from "../contract/elsewhere.ts";
import { messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import { sayUnmeant } from "../contract/settings.ts";
import { fragment, now, type Statement, sql } from "../contract/sql.ts";
import type { Portion } from "../contract/within.ts";
import { unavailableCell } from "../observe/metrics/vitals.ts";
import { relay } from "../recorder/relay.ts";
import {
  type Alert,
  type AlertRow,
  asAlert,
  dropAlerts,
  isOvertaken,
  isSpoiled,
  OTHERS,
  removeSpoiled,
  selectKnown,
  writeAlerts,
} from "../store/alerts.ts";
import { cellOf } from "../store/cells.ts";
import { atomically, query } from "../store/d1/retry.ts";
import { selectEscalated, selectEscalations } from "../store/dead-letters.ts";
import { EXAMPLES, MAX_COUNTED } from "../store/health.ts";
import { insertOutgoing, type Outgoing } from "../store/outbox.ts";
import { selectTripped } from "../store/pauses.ts";
import type { Catalog } from "../topology/catalog.ts";
import { type AlertVars, CHANNELS, type ChannelName, channelOf } from "./channels.ts";
import { evaluate, type Reading, type Step } from "./evaluate.ts";
import { AlertChanged, alertsTenant, isOwn, messageOfNotice, noticeOf, SEND_ALERT } from "./notice.ts";
import { consoleOf } from "./post.ts";
import type { AlertRule } from "./rule.ts";
import { CELL_UNAVAILABLE, INSTANCES_ERRORED, LETTER_ESCALATED, LETTERS_ARRIVED, LETTERS_ESCALATED, WORKFLOWS_TRIPPED } from "./rules.ts";

interface Round {
  readonly rules: readonly AlertRule[];
  readonly catalog: Catalog | undefined;
  /** The gauges that the keeper has read in this round. */
  readonly gauges: readonly Reading[];
  /** The cells with a keeper that did not answer. */
  readonly failed?: readonly number[];
}

/**
 * Evaluates the rules with the gauges. Changes of alerts are committed in one batch with their messages. Then the messages are sent and the
 * changes are logged. If the process dies before sending, the messages stay in the outbox. If a concurrent round of the keeper has written
 * changes first, this round writes nothing, and the next round evaluates the rules again.
 */
export async function raiseAlerts(env: EngineEnv, given: Round, at = Date.now()): Promise<Portion> {
  const { rules } = given;
  // The channels are read in each round, so that an invalid variable or a missing binding is logged at once and not with the first alert.
  const channels = configured(env);
  const to = { channels, tenantId: alertsTenant(env as EngineEnv & AlertVars), isHeard: isHeard(env, given.catalog, channels) };
  const [known, { seen, failed }] = await Promise.all([readKnown(env), readingsOf(env, given)]);
  const { queues, workflows } = given.catalog?.elsewhere ?? NOWHERE;
  // The keeper of another Worker evaluates the groups of that Worker's queues and workflows.
  const isOurs = ({ labels: { queue = "", workflow = "" } }: Pick<Alert, "labels">) => !queues.has(queue) && !workflows.has(workflow);
  const evaluated = evaluate(rules, seen.filter(isOurs), known.filter(isOurs), at);
  const steps = failed.size === 0 ? evaluated : evaluated.filter((step) => !isMilder(step));
  if (steps.length === 0) return { did: 0, more: false };
  const kept = steps.filter((step) => "alert" in step);
  const dropped = steps.flatMap((step) => ("gone" in step ? [step.gone] : []));
  const messages = await messagesOf(env, given, to, kept);
  // A tenant that was placed before it got the alerts can live in another cell. Its messages are stored there, before the alerts.
  const { DB } = await cellOf(env, to.tenantId);
  const outgoing = messages.map(insertOutgoing);
  if (DB !== env.DB) await atomically(DB, outgoing);
  try {
    await atomically(env.DB, [
      ...(dropped.length > 0 ? [dropAlerts(dropped)] : []),
      ...writeAlerts(kept.map(({ alert }) => alert)),
      ...(DB === env.DB ? outgoing : []),
    ]);
  } catch (error) {
    if (isOvertaken(error)) return { did: 0, more: false };
    throw error;
  }
  await crashPoint("alert raised, not sent");
  const told = kept.filter(({ notice }) => notice !== undefined);
  for (const step of told) log(step);
  await relay(env, messages);
  return { did: told.length, more: false };
}

/** The gauges with examples from the cells, the occurrences in the cells, and the cells that did not answer. */
async function readingsOf(env: EngineEnv, { gauges, failed = [] }: Round): Promise<{ seen: Reading[]; failed: ReadonlySet<number> }> {
  const cells = await readCells(env, ({ DB }) => Promise.all([withExamples(DB, gauges), readOccurrences(DB)]));
  const all = new Set([...failed, ...cells.failed]);
  const exampled = gauges.map((gauge, at) => cells.found.map(([own]) => own[at]).find((own) => own?.examples) ?? gauge);
  return { seen: [...exampled, ...cells.found.flatMap(([, happened]) => happened), ...[...all].map(unavailableCell)], failed: all };
}

/** True if an alert ends or becomes a warning. The part of a cell that did not answer may keep the alert as it is. */
function isMilder(step: Step): boolean {
  if ("gone" in step) return step.gone.rule !== CELL_UNAVAILABLE;
  const { rule, state, quietSince, milderSince } = step.alert;
  return rule !== CELL_UNAVAILABLE && (state === "resolved" || quietSince !== null || milderSince !== null);
}

/** The stored alerts. An invalid row is removed and logged, so that it does not block other alerts. */
async function readKnown(env: EngineEnv): Promise<Alert[]> {
  const rows = await query<AlertRow>(env.DB, selectKnown());
  const spoiled = rows.filter(isSpoiled);
  if (spoiled.length > 0) await query(env.DB, removeSpoiled(spoiled.map(({ id }) => id)));
  for (const { id, rule } of spoiled) logLine("error", { log: "alert", change: "spoiled", alert_id: id, rule });
  return rows.filter((row) => !isSpoiled(row)).map(asAlert);
}

type Kept = Extract<Step, { alert: unknown }>;

async function messagesOf(
  env: EngineEnv,
  { rules, catalog }: Round,
  { channels, tenantId, isHeard }: { channels: readonly ChannelName[]; tenantId: string; isHeard: boolean },
  kept: readonly Kept[],
): Promise<Outgoing[]> {
  const senders = sendersOf(catalog);
  const told = kept.filter(({ alert, notice }) => notice !== undefined && !isOwn(alert.labels, senders));
  if (!isHeard) return [];
  const notes = await notesOf(env, told);
  return Promise.all(
    told.flatMap(({ alert, notice }) => {
      const rule = rules.find(({ name }) => name === alert.rule);
      return notice ? [messageOfNotice(env, tenantId, alert, noticeOf(alert, notice, rule, channels, notes.get(alert.id)))] : [];
    }),
  );
}

/** The notes that operators wrote for escalated dead letters, by the ids of their alerts. */
async function notesOf(env: EngineEnv, told: readonly Kept[]): Promise<ReadonlyMap<string, { by: string; text: string }>> {
  const about = told.filter(({ alert }) => alert.rule === LETTER_ESCALATED);
  if (about.length === 0) return new Map();
  const ids = about.flatMap(({ alert }) => alert.labels.dead_letter ?? []);
  const { found } = await readCells(env, ({ DB }) => query<{ id: string; saidBy: string; note: string }>(DB, selectEscalations(ids)));
  const said = new Map(found.flat().map(({ id, saidBy: by, note }) => [id, { by, text: note }]));
  return new Map(
    about.flatMap(({ alert }) => {
      const note = said.get(alert.labels.dead_letter ?? "");
      return note ? [[alert.id, note] as const] : [];
    }),
  );
}

/** If one channel is only partly configured, alerts are still listed, and sent to the other channels. */
function configured(env: EngineEnv): ChannelName[] {
  const channels = CHANNELS.filter((name) => {
    try {
      return channelOf(name, env as EngineEnv & AlertVars) !== undefined;
    } catch (error) {
      sayUnmeant(env, messageOf(error));
      return false;
    }
  });
  // Logs an invalid `PUBLIC_URL` now and not with the first alert.
  if (channels.length > 0) consoleOf(env as EngineEnv & AlertVars);
  return channels;
}

/** Logs one line per changed alert, whether or not a notice is sent. */
function log({ alert, notice }: Kept): void {
  const { id, rule, severity, labels, value, count, since } = alert;
  const level = notice === "resolved" || notice === "eased" ? "info" : severity === "critical" ? "error" : "warn";
  const what = { log: "alert", change: notice, alert_id: id, rule, severity, ...labels };
  logLine(level, { ...what, value, count, since: new Date(since).toISOString() });
}

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
async function readOccurrences(db: D1Database): Promise<Reading[]> {
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
async function withExamples(db: D1Database, gauges: readonly Reading[]): Promise<Reading[]> {
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

/** The workflows that alerts start. Failures of workflows that alerts start must not raise further alerts. */
function sendersOf(catalog: Catalog | undefined): ReadonlySet<string> {
  return new Set([SEND_ALERT, ...startedOf(catalog)]);
}

/**
 * True if alerts' messages have a receiver: a channel, or a consumer of the deployment. Each missing part is logged once in each
 * environment: an unbound queue or workflow, and channels without a sending workflow.
 */
function isHeard(env: object, catalog: Catalog | undefined, channels: readonly ChannelName[]): boolean {
  const targets = targetsOf(catalog);
  if (targets.length === 0) {
    if (channels.length > 0) sayUnmeant(env, UNSENT);
    return false;
  }
  // A message of an alert whose workflow is not bound is not lost: after its retries, the message becomes a dead letter.
  for (const workflow of startedOf(catalog).filter((name) => !isElsewhere(env, name, catalog?.elsewhere)))
    said(env, `Alerts do not start "${workflow}"`, () => workflowBinding(env, workflow, catalog?.elsewhere));
  if (!said(env, "Alerts are not sent", () => queueBinding(env, AlertChanged.queue.name))) return false;
  return targets.some((target) => channels.length > 0 || target.do !== "start" || target.workflow.name !== SEND_ALERT);
}

/** True if a binding for alerts exists. Otherwise the function logs the missing binding. */
function said(env: object, what: string, find: () => unknown): boolean {
  try {
    find();
    return true;
  } catch (error) {
    sayUnmeant(env, `${what}: ${messageOf(error)}`);
    return false;
  }
}

const UNSENT =
  "Alerts are not sent: a channel is configured, but no workflow sends to it. Add defineConsumer({ queue: AlertChanged.queue, " +
  "routes: [on(AlertChanged, start(alertSender()))] }) to the catalog, and deploy.";

function startedOf(catalog: Catalog | undefined): string[] {
  return targetsOf(catalog).flatMap((target) => (target.do === "start" ? [target.workflow.name] : []));
}

function targetsOf(catalog: Catalog | undefined) {
  return catalog?.kindsOf(AlertChanged.type).includes("event") ? catalog.subscribers(AlertChanged.type).targets : [];
}
