import type { EngineEnv } from "../contract/bindings.ts";
import { readCells } from "../contract/cells.ts";
import { crashPoint } from "../contract/crash-points.ts";
import { NOWHERE } from "../contract/elsewhere.ts";
import { messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import type { Portion } from "../contract/patience.ts";
import { sayUnmeant } from "../contract/settings.ts";
import { unavailableCell } from "../observe/metrics/gauges.ts";
import { relay } from "../recorder/relay.ts";
import {
  type Alert,
  type AlertRow,
  asAlert,
  dropAlerts,
  isOvertaken,
  isSpoiled,
  removeSpoiled,
  selectKnown,
  writeAlerts,
} from "../store/alerts.ts";
import { cellOf } from "../store/cells.ts";
import { atomically, query } from "../store/d1/retry.ts";
import { selectEscalations } from "../store/dead-letters.ts";
import { insertOutgoing, type Outgoing } from "../store/outbox.ts";
import type { Catalog } from "../topology/catalog.ts";
import { type AlertVars, CHANNELS, type ChannelName, channelOf } from "./channels.ts";
import { evaluate, type Step } from "./evaluate.ts";
import { isHeard, sendersOf } from "./heard.ts";
import { alertsTenant, isOwn, messageOfNotice, noticeOf } from "./notice.ts";
import type { Reading } from "./observations.ts";
import { readOccurrences, withExamples } from "./occurrences.ts";
import { consoleOf } from "./place.ts";
import type { AlertRule } from "./rule.ts";
import { CELL_UNAVAILABLE, LETTER_ESCALATED } from "./rules.ts";

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
