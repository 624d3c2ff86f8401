import { messageOf } from "../contract/errors.ts";
import { among, fragment, now, rowChunks, type Statement, sql } from "../contract/sql.ts";

/** How urgent an alert is. */
export const SEVERITIES = ["warning", "critical"] as const;
export type Severity = (typeof SEVERITIES)[number];

/** The states of an alert: seen, but not for long enough; people are told of it; over. */
export const ALERT_STATES = ["pending", "firing", "resolved"] as const;
export type AlertState = (typeof ALERT_STATES)[number];

/** What a rule sees in one group of samples. All times in milliseconds since 1970. */
export interface Alert {
  /** 32 hex characters. */
  readonly id: string;
  readonly rule: string;
  /** The group's labels. */
  readonly labels: Readonly<Record<string, string>>;
  readonly state: AlertState;
  readonly severity: Severity;
  /** As it was seen last. */
  readonly value: number;
  /** How often it has happened; null where the rule is about a level. */
  readonly count: number | null;
  /** At most three ids of what it is about: the first that were seen. */
  readonly examples: readonly string[];
  /** Since when it holds. */
  readonly since: number;
  /** Since when it is beyond the critical bound; null while it is not. */
  readonly criticalSince: number | null;
  /** Since when a critical alert is within that bound again. */
  readonly milderSince: number | null;
  /** Since when it is over. */
  readonly quietSince: number | null;
  readonly firedAt: number | null;
  /** What was told last, and when; null before the first notice. */
  readonly told: { readonly at: number; readonly severity: Severity } | null;
  /** When it was seen last; of what happens, when it happened last. */
  readonly lastAt: number;
  /** When its row was written last. */
  readonly updatedAt: number;
  readonly resolvedAt: number | null;
  /** Nobody is told of it before then. */
  readonly mutedUntil: number | null;
  readonly muteReason: string | null;
  /** Grows by one with each write: of two that were made from the same, one is refused. */
  readonly version: number;
}

/** The name of a group: its labels, in the order of their names. */
export function groupOf(labels: Alert["labels"]): string {
  return JSON.stringify(Object.fromEntries(Object.entries(labels).toSorted(([one], [other]) => (one < other ? -1 : 1))));
}

/** What every label of the group says that holds what is beyond the groups that are told apart. */
export const OTHERS = "others";

/** An alert as its row has it. */
export interface AlertRow extends Omit<Alert, "labels" | "examples" | "told"> {
  readonly labels: string;
  readonly examples: string;
  readonly toldAt: number | null;
  readonly toldSeverity: Severity | null;
}

/** What a list of alerts reads. */
export const ALERT_COLUMNS = fragment(`id, rule, labels, state, severity, value, count, examples, since, critical_since AS criticalSince,
    milder_since AS milderSince, quiet_since AS quietSince, fired_at AS firedAt, told_at AS toldAt, told_severity AS toldSeverity,
    last_at AS lastAt, updated_at AS updatedAt, resolved_at AS resolvedAt, muted_until AS mutedUntil, mute_reason AS muteReason, version`);

/** What a careless `UPDATE` has made unreadable in a row is empty. */
export function asAlert({ labels, examples, toldAt, toldSeverity, ...row }: AlertRow): Alert {
  const told = toldAt === null || toldSeverity === null ? null : { at: toldAt, severity: toldSeverity };
  return { ...row, labels: labelsIn(labels) ?? {}, examples: examplesIn(examples) ?? [], told };
}

/** True for a row that no round can go on from, because somebody has written into it what the engine never would. */
export function isSpoiled({ labels, examples, value, version, ...row }: AlertRow): boolean {
  const times = [row.since, row.criticalSince, row.milderSince, row.quietSince, row.firedAt, row.toldAt, row.lastAt, row.updatedAt];
  const isReadable = labelsIn(labels) !== undefined && examplesIn(examples) !== undefined;
  const isWritable = Number.isFinite(value) && [version + 1, row.count ?? 0].every(Number.isSafeInteger);
  return !isReadable || !isWritable || [...times, row.mutedUntil].some((at) => at !== null && !(Math.abs(at) <= LAST_MS));
}

/** The last time that a date can be. */
const LAST_MS = 8.64e15;

function labelsIn(text: string): Alert["labels"] | undefined {
  const said = jsonIn(text);
  return typeof said === "object" && said !== null && !Array.isArray(said) && areTexts(Object.values(said))
    ? (said as object as Alert["labels"])
    : undefined;
}

function examplesIn(text: string): Alert["examples"] | undefined {
  const said = jsonIn(text);
  return Array.isArray(said) && areTexts(said) ? said : undefined;
}

function areTexts(values: readonly unknown[]): values is readonly string[] {
  return values.every((value) => typeof value === "string");
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Alerts that are open, and those that are over and still muted: what a round starts from. */
export function selectKnown(): Statement {
  return sql`
    SELECT ${ALERT_COLUMNS} FROM millrace_alerts INDEXED BY millrace_alerts_open WHERE state <> 'resolved'
    UNION ALL
    SELECT ${ALERT_COLUMNS} FROM millrace_alerts INDEXED BY millrace_alerts_muted WHERE muted_until > ${now} AND state = 'resolved'`;
}

/**
 * Writes alerts as a round has moved them on. The whole batch is refused (`isOvertaken`) where another round, or an operator, has written
 * one of them since, or has opened another one of its rule and group.
 */
export function writeAlerts(alerts: readonly Alert[]): Statement[] {
  const rows = alerts.map(({ labels, told, ...alert }) => ({
    ...alert,
    labels: groupOf(labels),
    toldAt: told?.at ?? null,
    toldSeverity: told?.severity ?? null,
  }));
  return rowChunks(rows).map(
    (chunk) => sql`
    INSERT INTO millrace_alerts (id, rule, labels, state, severity, value, count, examples, since, critical_since, milder_since,
      quiet_since,
      fired_at, told_at, told_severity, last_at, updated_at, resolved_at, muted_until, mute_reason, version)
    SELECT value->>'id', value->>'rule', value->>'labels', value->>'state', value->>'severity', value->>'value', value->>'count',
      value->'examples', value->>'since', value->>'criticalSince', value->>'milderSince', value->>'quietSince', value->>'firedAt',
      value->>'toldAt', value->>'toldSeverity', value->>'lastAt', value->>'updatedAt', value->>'resolvedAt', value->>'mutedUntil',
      value->>'muteReason', value->>'version'
    FROM json_each(${chunk}) WHERE true
    ON CONFLICT (id) DO UPDATE SET state = iif(millrace_alerts.version = excluded.version - 1, excluded.state, NULL),
      severity = excluded.severity,
      value = excluded.value, count = excluded.count, examples = excluded.examples, critical_since = excluded.critical_since,
      milder_since = excluded.milder_since, quiet_since = excluded.quiet_since, fired_at = excluded.fired_at, told_at = excluded.told_at,
      told_severity = excluded.told_severity, last_at = excluded.last_at, updated_at = excluded.updated_at,
      resolved_at = excluded.resolved_at, version = excluded.version`,
  );
}

/** Removes rows that no round can go on from: what they were about begins anew, if it holds. */
export function removeSpoiled(ids: readonly string[]): Statement {
  return sql`DELETE FROM millrace_alerts WHERE id IN ${among(ids)}`;
}

/** Removes pending alerts that were over before anybody was told, unless somebody has written them since. */
export function dropAlerts(alerts: readonly Pick<Alert, "id" | "version">[]): Statement {
  const rows = alerts.map(({ id, version }) => ({ id, version }));
  return sql`
    DELETE FROM millrace_alerts WHERE state = 'pending' AND (id, version) IN
      (SELECT value->>'id', value->>'version' FROM json_each(${JSON.stringify(rows)}))`;
}

/** True for the refusal of a round whose alerts somebody else has moved on. */
export function isOvertaken(error: unknown): boolean {
  return /constraint failed: millrace_alerts\.(state|rule)/.test(messageOf(error));
}

/**
 * Nobody is told of an alert before `until`. It, and the next ones of its rule and group, go on as they would. Mutes of older ones of that
 * group are over: the last word holds.
 */
export function muteAlert(id: string, until: number, reason: string): Statement[] {
  return [
    sql`${UNMUTE} AND id <> ${id} AND ${holdsForNext(id)}`,
    sql`
    UPDATE millrace_alerts SET muted_until = ${until}, mute_reason = ${reason}, version = version + 1
    WHERE id = ${id} AND (muted_until IS NOT ${until} OR mute_reason IS NOT ${reason})`,
  ];
}

/** People are told of an alert again, and of the next ones of its rule and group. */
export function unmuteAlert(id: string): Statement {
  return sql`${UNMUTE} AND (id = ${id} OR ${holdsForNext(id)})`;
}

const UNMUTE = fragment(`UPDATE millrace_alerts SET muted_until = NULL, mute_reason = NULL, version = version + 1
  WHERE muted_until IS NOT NULL`);

/** The condition that the mute of a row holds for the next alert of the same rule and group. */
function holdsForNext(id: string): Statement {
  return sql`(state = 'resolved' AND (rule, labels) IN (SELECT a.rule, a.labels FROM millrace_alerts a WHERE a.id = ${id}))`;
}

/** Removes alerts that were over long ago, and are not muted. Answers a row for each. */
export function removeResolved(keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM millrace_alerts WHERE id IN (
      SELECT id FROM millrace_alerts
      WHERE since <= ${now} - ${keepMs} AND state = 'resolved' AND resolved_at <= ${now} - ${keepMs} AND coalesce(muted_until, 0) <= ${now}
      LIMIT ${limit})
    RETURNING 1 AS gone`;
}
