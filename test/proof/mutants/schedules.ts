// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the searched text is source, with the placeholders of its SQL.
import { mutantsOf } from "./mutant.ts";

const CHANGE = "packages/millrace/src/schedules/change.ts";
const TABLE = "packages/millrace/src/store/schedules.ts";
const DUE = "packages/millrace/src/schedules/due.ts";
const DEPLOYED = "test/engine/topology/deployed-schedules.test.ts";
const RACES = "test/engine/schedules/races.test.ts";

/** Due times that start wrongly, or that are recorded twice or not at all. */
export const SCHEDULES = mutantsOf("schedules", {
  "a due time starts although its schedule is paused, changed or deleted": {
    file: DUE,
    find: "provided: started,",
    put: "provided: sql`true`,",
    killedBy: RACES,
  },
  "a due time starts although an operator has removed it": {
    file: DUE,
    find: "sql`${unmoved} AND NOT ${isTaken(command)}`",
    put: "sql`NOT ${isTaken(command)}`",
    killedBy: RACES,
  },
  "the keeper overwrites a schedule that was changed": {
    file: TABLE,
    find: " AND revision = ${revision} AND next_at = ${nextAt}`",
    put: "`",
    killedBy: RACES,
  },
  "a due time is recorded as missed although it was started": {
    file: CHANGE,
    find: "{ ...run, ...said }, at, isUnmoved(schedule))",
    put: "{ ...run, ...said }, at, sql`true`)",
    killedBy: RACES,
  },
  "a change overwrites a due time that was claimed meanwhile": {
    file: TABLE,
    find: "WHERE ${before ? isUnmoved(before) : hasRoom(schedule.tenantId, most)}",
    put: "WHERE ${before ? sql`true` : hasRoom(schedule.tenantId, most)}",
    killedBy: RACES,
  },
  "a requested run becomes another run once its schedule has another command": {
    file: "packages/millrace/src/schedules/change.ts",
    find: "provided: isHandRun(named, run),",
    put: "provided: sql`true`,",
    killedBy: RACES,
  },
  "a due time reads an older payload as the present version": {
    file: DUE,
    find: "const request = { type, schemaVersion, payload,",
    put: "const request = { type, payload,",
    killedBy: DEPLOYED,
  },
  "a due time is given up because its deployment lacks a binding": {
    file: DUE,
    find: '["config_invalid", "unavailable"].includes(accepted.code)',
    put: '["unavailable"].includes(accepted.code)',
    killedBy: DEPLOYED,
  },
  "schedules without a binding delay the schedules of other commands": {
    file: DUE,
    find: "failed.commands.add(schedule.command)",
    put: "failed.commands.has(schedule.command)",
    killedBy: DEPLOYED,
  },
  "runs in the same millisecond share a record": {
    file: "packages/millrace/src/store/schedule-runs.ts",
    find: "SELECT max(due_at) + 1 FROM millrace_schedule_runs",
    put: "SELECT max(due_at) FROM millrace_schedule_runs",
    killedBy: RACES,
  },
  "a tenant can have more schedules than its limit": {
    file: TABLE,
    find: "WHERE tenant_id = ${tenantId}) < ${most}`",
    put: "WHERE tenant_id = ${tenantId}) >= 0`",
    killedBy: RACES,
  },
});
