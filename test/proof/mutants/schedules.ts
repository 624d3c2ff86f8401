// biome-ignore-all lint/suspicious/noTemplateCurlyInString: what is looked for is source, with the placeholders of its SQL.
import { mutantsOf } from "./mutant.ts";

const CHANGE = "src/engine/schedules/change.ts";
const DUE = "src/engine/schedules/due.ts";
const RACES = "test/schedules/races.test.ts";

/** Times that run and should not, that are noted twice or not at all. */
export const SCHEDULES = mutantsOf("schedules", {
  "a time runs although its schedule is paused, changed or ended": {
    file: DUE,
    find: "provided: started,",
    put: "provided: sql`true`,",
    killedBy: RACES,
  },
  "a time is started that somebody has taken away": {
    file: DUE,
    find: "sql`${unmoved} AND NOT ${isTaken(command)}`",
    put: "sql`NOT ${isTaken(command)}`",
    killedBy: RACES,
  },
  "the keeper overwrites a schedule that was changed": {
    file: DUE,
    find: " AND revision = ${schedule.revision} AND next_at = ${schedule.nextAt}`",
    put: "`",
    killedBy: RACES,
  },
  "a time is missed although it was started": {
    file: CHANGE,
    find: "{ ...run, ...said }, at, isUnmoved(schedule))",
    put: "{ ...run, ...said }, at, sql`true`)",
    killedBy: RACES,
  },
  "a change is written over a time that was taken meanwhile": {
    file: CHANGE,
    find: "WHERE ${before ? isUnmoved(before) : hasRoom(by)}",
    put: "WHERE ${before ? sql`true` : hasRoom(by)}",
    killedBy: RACES,
  },
  "a wish is another run once its schedule has another command": {
    file: "src/engine/schedules/run-now.ts",
    find: "provided: isHandRun(named, run),",
    put: "provided: sql`true`,",
    killedBy: RACES,
  },
  "runs of one millisecond share a note": {
    file: "src/engine/schedules/schedule.ts",
    find: "SELECT max(due_at) + 1 FROM schedule_runs",
    put: "SELECT max(due_at) FROM schedule_runs",
    killedBy: RACES,
  },
  "tenants have more schedules than they may": {
    file: CHANGE,
    find: "WHERE tenant_id = ${tenantId}) < ${MAX_SCHEDULES}`",
    put: "WHERE tenant_id = ${tenantId}) >= 0`",
    killedBy: RACES,
  },
});
