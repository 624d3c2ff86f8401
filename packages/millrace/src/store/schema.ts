/** What each migration makes: a table, an index, or `table.column`. One of them is enough to find that a migration is not applied. */
export type Schema = Readonly<Record<string, string>>;

/** The migrations of the engine. A migration that only changes what is allowed in a column is left out: nothing shows it by a name. */
export const ENGINE_SCHEMA: Schema = {
  "0001_engine": "instances",
  "0004_payload_refs": "instances_by_payload",
  "0008_approvals": "approvals",
  "0013_schedules": "schedules",
  "0015_order": "inbox.after",
  "0017_runs_and_urgency": "instances.run",
  "0018_small_tombstones": "tombstones.pruned_day",
  "0020_waits": "waits.over_at",
  "0022_promises_and_sends": "outbox.sent_at",
  "0023_asked_waits": "waits.asked_at",
  "0024_caught_before": "instances.caught",
  "0026_tokens": "tokens_by_tenant",
  "0028_stated_events": "stated_events",
  "0029_wait_until": "waits.due_at",
  "0034_occasions": "schedule_runs.occasion",
  "0042_locks": "locks",
  "0043_lanes": "lanes",
  "0044_sequences": "sequences",
  "0046_tenant_objects": "tenant_objects",
  "0048_counts": "tallies",
  "0049_alerts": "alerts",
  "0050_divergences": "divergences",
  "0051_spent": "instances.spent",
  "0053_ends": "instances.must_end_by",
  "0054_causes": "instances.cause",
  "0055_append_only_audit": "actions.token_id",
  "0057_letters_by_key": "dead_letters_by_key",
  "0058_bulk_actions": "bulk_actions",
  "0059_sign_in_codes": "sign_in_codes",
  "0061_errored_by_workflow": "instances_errored_by_workflow",
  "0062_found_by_operators": "dead_letters_by_subject",
  "0063_signed_in": "tokens.signed_in",
  "0066_limits": "limits",
  "0067_audit_by_instance": "actions_by_instance",
  "0068_lean_steps": "inbox.began_at",
  "0069_attempt_ended": "inbox.ended_at",
  "0070_skipped_over": "inbox.skipped_over",
  "0071_broken_off": "instances.broken_off",
  "0074_due_at": "instances.due_at",
  "0075_lost_steps": "instances.lost",
  "0076_undone": "instances.undone",
};

/** A row of `sqlite_master`. */
export interface SchemaRow {
  name: string;
  sql: string | null;
}

/** The first migration whose table, index or column is not among these rows. */
export function notApplied(schema: Schema, rows: readonly SchemaRow[]): { migration: string; lacks: string } | undefined {
  const found = new Map(rows.map(({ name, sql }) => [name, sql ?? ""]));
  for (const [migration, lacks] of Object.entries(schema).toSorted()) {
    const [name = "", column] = lacks.split(".");
    const sql = found.get(name);
    if (sql === undefined || (column !== undefined && !new RegExp(`\\b${column}\\b`).test(sql))) return { migration, lacks };
  }
  return undefined;
}
