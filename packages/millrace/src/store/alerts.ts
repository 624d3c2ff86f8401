import { messageOf } from "../contract/errors.ts";
import { among, fragment, now, rowChunks, type Statement, sql } from "../contract/sql.ts";

export const SEVERITIES = ["warning", "critical"] as const;
export type Severity = (typeof SEVERITIES)[number];

/** The states of an alert: pending (the condition is too recent), firing (notified), resolved. */
export const ALERT_STATES = ["pending", "firing", "resolved"] as const;
export type AlertState = (typeof ALERT_STATES)[number];

/** The alert of a rule for one group of samples. All times are milliseconds since 1970. */
export interface Alert {
  /** The id of the alert: 32 hex characters. */
  readonly id: string;
  readonly rule: string;
  /** The labels of the alert's group. */
  readonly labels: Readonly<Record<string, string>>;
  readonly state: AlertState;
  readonly severity: Severity;
  /** The value at the latest observation. */
  readonly value: number;
  /** The number of occurrences of an event; null for a rule about a level. */
  readonly count: number | null;
  /** The ids of the first affected instances or messages, at most three. */
  readonly examples: readonly string[];
  /** When the condition began. */
  readonly since: number;
  /** When the condition became critical; null while the condition is not critical. */
  readonly criticalSince: number | null;
  /** When a critical alert fell below the critical bound. */
  readonly milderSince: number | null;
  /** When the condition ended. */
  readonly quietSince: number | null;
  readonly firedAt: number | null;
  /** The latest notification; null if no notification was sent. */
  readonly told: { readonly at: number; readonly severity: Severity } | null;
  /** The time of the latest observation of the condition, or of the latest occurrence of the event. */
  readonly lastAt: number;
  /** The time when the alert's row was last written. */
  readonly updatedAt: number;
  readonly resolvedAt: number | null;
  /** The time until which the alert is muted. */
  readonly mutedUntil: number | null;
  readonly muteReason: string | null;
  /** The row's version, which each write increments. A write that is based on an older version is refused. */
  readonly version: number;
}

/** The key of a group: its labels, sorted by name. */
export function groupOf(labels: Alert["labels"]): string {
  return JSON.stringify(Object.fromEntries(Object.entries(labels).toSorted(([one], [other]) => (one < other ? -1 : 1))));
}

/** The value of every label in the group that collects all groups above the maximum. */
export const OTHERS = "others";

/** An alert in the form of its row. */
export interface AlertRow extends Omit<Alert, "labels" | "examples" | "told"> {
  readonly labels: string;
  readonly examples: string;
  readonly noticeAt: number | null;
  readonly noticeSeverity: Severity | null;
}

const COLUMNS = fragment(`id, rule, labels, state, severity, value, count, examples, since, critical_since AS criticalSince,
    milder_since AS milderSince, quiet_since AS quietSince, fired_at AS firedAt, notice_at AS noticeAt, notice_severity AS noticeSeverity,
    last_at AS lastAt, updated_at AS updatedAt, resolved_at AS resolvedAt, muted_until AS mutedUntil, mute_reason AS muteReason, version`);

/** Converts a row to an alert. A field that a manual `UPDATE` made unreadable becomes empty. */
export function asAlert({ labels, examples, noticeAt, noticeSeverity, ...row }: AlertRow): Alert {
  const told = noticeAt === null || noticeSeverity === null ? null : { at: noticeAt, severity: noticeSeverity };
  return { ...row, labels: labelsIn(labels) ?? {}, examples: examplesIn(examples) ?? [], told };
}

/** True for an alert's row that a manual write has made unusable. */
export function isSpoiled({ labels, examples, value, version, ...row }: AlertRow): boolean {
  const times = [row.since, row.criticalSince, row.milderSince, row.quietSince, row.firedAt, row.noticeAt, row.lastAt, row.updatedAt];
  const isReadable = labelsIn(labels) !== undefined && examplesIn(examples) !== undefined;
  const isWritable = Number.isFinite(value) && [version + 1, row.count ?? 0].every(Number.isSafeInteger);
  return !isReadable || !isWritable || [...times, row.mutedUntil].some((at) => at !== null && !(Math.abs(at) <= LAST_MS));
}

/** The latest time that a Date can represent. */
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

/** Selects the alerts that a round reads at its start: open alerts, and resolved alerts with a mute. */
export function selectKnown(): Statement {
  return sql`
    SELECT ${COLUMNS} FROM millrace_alerts INDEXED BY millrace_alerts_open WHERE state <> 'resolved'
    UNION ALL
    SELECT ${COLUMNS} FROM millrace_alerts INDEXED BY millrace_alerts_muted WHERE muted_until > ${now} AND state = 'resolved'`;
}

/**
 * Writes the alerts of a round. The whole batch is refused (`isOvertaken`) if another round or an operator has written one of these alerts
 * after this round read it. The batch is also refused if another round has opened an alert with the same rule and group.
 */
export function writeAlerts(alerts: readonly Alert[]): Statement[] {
  const rows = alerts.map(({ labels, told, ...alert }) => ({
    ...alert,
    labels: groupOf(labels),
    noticeAt: told?.at ?? null,
    noticeSeverity: told?.severity ?? null,
  }));
  return rowChunks(rows).map(
    (chunk) => sql`
    INSERT INTO millrace_alerts (id, rule, labels, state, severity, value, count, examples, since, critical_since, milder_since,
      quiet_since,
      fired_at, notice_at, notice_severity, last_at, updated_at, resolved_at, muted_until, mute_reason, version)
    SELECT value->>'id', value->>'rule', value->>'labels', value->>'state', value->>'severity', value->>'value', value->>'count',
      value->'examples', value->>'since', value->>'criticalSince', value->>'milderSince', value->>'quietSince', value->>'firedAt',
      value->>'noticeAt', value->>'noticeSeverity', value->>'lastAt', value->>'updatedAt', value->>'resolvedAt', value->>'mutedUntil',
      value->>'muteReason', value->>'version'
    FROM json_each(${chunk}) WHERE true
    ON CONFLICT (id) DO UPDATE SET state = iif(millrace_alerts.version = excluded.version - 1, excluded.state, NULL),
      severity = excluded.severity,
      value = excluded.value, count = excluded.count, examples = excluded.examples, critical_since = excluded.critical_since,
      milder_since = excluded.milder_since, quiet_since = excluded.quiet_since, fired_at = excluded.fired_at,
      notice_at = excluded.notice_at,
      notice_severity = excluded.notice_severity, last_at = excluded.last_at, updated_at = excluded.updated_at,
      resolved_at = excluded.resolved_at, version = excluded.version`,
  );
}

/** Removes unusable rows of alerts. If the condition of a removed alert persists, a new alert starts. */
export function removeSpoiled(ids: readonly string[]): Statement {
  return sql`DELETE FROM millrace_alerts WHERE id IN ${among(ids)}`;
}

/** Removes pending alerts that ended without a notification, unless an alert was written after the round read it. */
export function dropAlerts(alerts: readonly Pick<Alert, "id" | "version">[]): Statement {
  const rows = alerts.map(({ id, version }) => ({ id, version }));
  return sql`
    DELETE FROM millrace_alerts WHERE state = 'pending' AND (id, version) IN
      (SELECT value->>'id', value->>'version' FROM json_each(${JSON.stringify(rows)}))`;
}

/** True for D1's error that refuses a round's alerts because another round or an operator has written some of them. */
export function isOvertaken(error: unknown): boolean {
  return /constraint failed: millrace_alerts\.(state|rule)/.test(messageOf(error));
}

/**
 * Mutes an alert, and later alerts with the same rule and group, until `until`. The mutes of older alerts with the same rule and group end,
 * so that only the latest mute is in effect.
 */
export function muteAlert(id: string, until: number, reason: string): Statement[] {
  return [
    sql`${UNMUTE} AND id <> ${id} AND ${holdsForNext(id)}`,
    sql`
    UPDATE millrace_alerts SET muted_until = ${until}, mute_reason = ${reason}, version = version + 1
    WHERE id = ${id} AND (muted_until IS NOT ${until} OR mute_reason IS NOT ${reason})`,
  ];
}

/** Unmutes an alert, and later alerts with the same rule and group. */
export function unmuteAlert(id: string): Statement {
  return sql`${UNMUTE} AND (id = ${id} OR ${holdsForNext(id)})`;
}

const UNMUTE = fragment(`UPDATE millrace_alerts SET muted_until = NULL, mute_reason = NULL, version = version + 1
  WHERE muted_until IS NOT NULL`);

/** The condition that an alert's mute applies to the next alert with the same rule and group. */
function holdsForNext(id: string): Statement {
  return sql`(state = 'resolved' AND (rule, labels) IN (SELECT a.rule, a.labels FROM millrace_alerts a WHERE a.id = ${id}))`;
}

/** Removes alerts that were resolved long ago and are not muted. The statement returns a row for each removed row. */
export function removeResolved(keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM millrace_alerts WHERE id IN (
      SELECT id FROM millrace_alerts
      WHERE since <= ${now} - ${keepMs} AND state = 'resolved' AND resolved_at <= ${now} - ${keepMs} AND coalesce(muted_until, 0) <= ${now}
      LIMIT ${limit})
    RETURNING 1 AS gone`;
}
