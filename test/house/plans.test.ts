import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { openMigrated } from "../migrations.ts";
import { readSql, type Written } from "./read-sql.ts";

const ROOT = join(import.meta.dirname, "../..");

/**
 * Statements that scan or sort more than one instance's rows, and the reason why their cost does not grow over the years. All other
 * statements read their result from an index.
 */
const READS_ALL: Record<string, string> = {
  "inspect/health.ts assertSchema": "Reads the list of the database's tables and indexes, about 250, which does not grow with the data.",
  "store/instances/look.ts anyInstance": "Reads one row of an index, when an operator deploys.",
  "store/actions.ts selectOldActions": "Scans the audit once a day: an index would add a written row per audit row.",
  "store/tokens.ts removeExpired": "Scans the tokens once a day: an index would add a written row per token.",
  "store/tokens.ts selectFamilyOwner": "Scans the tokens when an operator revokes one from the command line.",
  "store/schedule-runs.ts removeRuns": "Scans the runs of schedules once a day: an index would add a written row per run.",
  "store/fences.ts removeFences": "Scans the locks' fences once a day: an index would add a written row per write under a lock.",
  "store/failed-deliveries.ts removeOldFailures":
    "Scans the failures of deliveries once a day: an index would add a written row per failure.",
  "store/dead-letters.ts selectEscalated": "Reads at most 1,000 rows of an index that contains only open, escalated dead letters.",
  "store/bulk-actions.ts removeEndedBulk": "Scans the bulk actions once a day: an index would add a written row per action.",
  "store/bulk-items.ts removeOldItems": "Scans the bulk actions once a day, and reads the items of each old one from an index.",
  "store/bulk-lists.ts removeOldLists": "Scans the lists of bulk actions once a day.",
  "store/bulk-lists.ts freezeMembers": "Sorts the items of an operator's selection by age, at most 100,000.",
  "operate/bulk/start.ts count": "Counts the items of an operator's selection, at most 100,000.",
  "operate/instances/retry.ts doneAgain": "Counts the undone items of an operator's selection, at most 100,000.",
  "operate/bulk/verbs.ts byStep": "Groups the items of an operator's selection, at most 100,000, by their steps with unknown outcomes.",
  "operate/bulk/filters.ts instanceMembers": "Reads the items of an operator's selection from an index that contains only open instances.",
  "keeper/open-instances.ts dueInstances": "Reads two rows of each tenant with instances to start, and at most 200 due instances.",
  "keeper/prune-objects.ts refsAmong": "Reads, once a day, an index that contains only messages with a payload in R2.",
  "inspect/instances.ts countInstances": "Reads the newest 2,000 rows of an index, or the index of open instances.",
  "inspect/effects.ts listEffects": "Reads an index that contains only effects with unknown outcomes.",
  "reconcile/checks/homes.ts selectTenants": "Reads one row of an index for each of at most 200 tenants.",
  "store/moved.ts selectHomes": "Reads the few tenants that have moved, for an unknown token.",
  "store/outbox.ts removeUnsentOf": "Reads the outbox, which contains only unconfirmed messages, when a tenant is deleted.",
  "store/waits.ts assignEvents": "Sorts the events and waits of one batch's subjects.",
  "pull/letters.ts sql": "Reads the dead letters of one queue, when an operator pages through them.",
  "pull/storage.ts copy": "Reads the dead letters of one queue, when an operator requeues one.",
  "pull/storage.ts ripe": "Sorts the due messages of a pull queue in the order of their sends, from an index of returned messages only.",
  "store/health.ts HEALTH": "Reads indexes, and a table, that contain only open problems.",
  "store/health.ts EXAMPLES": "Reads examples of open problems, only while their gauge is not 0.",
  "store/tallies.ts selectTallies": "Reads the metric counts of one minute that are not merged yet.",
  "store/alerts.ts selectKnown": "Reads an index that contains only open alerts.",
  "inspect/costs.ts newestRuns": "Reads the newest 2,000 instances, in the order of their row ids.",
  "inspect/seen-steps.ts seenSteps": "Reads the tenant's newest 200 instances, and 50 inbox rows of each by primary key.",
  "inspect/search/finders.ts jobs": "Reads at most six rows between two ids of an index.",
  "inspect/correlation.ts selectInstances": "Reads 500 inbox rows of each instance of a page, by primary key.",
  "inspect/correlation.ts countEmitted": "Reads 500 inbox rows of one instance, by primary key.",
  "operate/pause-work.ts pauseRunning": "Reads an index that contains only open instances, when an operator pauses them.",
  "store/pauses.ts selectPausesOfAll": "Scans the pauses, which are few, when a cell is added.",
  "store/pauses.ts selectTripped": "Reads an index that contains only pauses by breakers.",
  "store/instances/callback.ts selectOwed":
    "Reads an index that contains only ends of instances whose callback address has not been called yet.",
  "store/instances/accept.ts askForStart": "Reads the accepted instances with flow control by row id, in the order of their acceptance.",
  "store/instances/children.ts ASK_FOR_CHILD_START": "Reads the accepted children with flow control by row id.",
  "store/instances/children.ts selectBlocked": "Reads the parents of a child one by one, by primary key, at most `maxHops`.",
  "inspect/instances.ts between": "Sorts open instances in the keeper's order, from an index that contains only open instances.",
};

interface Step {
  id: number;
  parent: number;
  detail: string;
}

/** The tables that an object of the engine creates for itself: `SCHEMA`, in the file of its rows. */
function objectSchemas(): string[] {
  const folder = join(ROOT, "packages/millrace/src");
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((file) => /^(pull|rooms)\//.test(file))
    .flatMap((file) => [...readFileSync(join(folder, file), "utf8").matchAll(/^const SCHEMA = `([^`]*)`/gm)].map(([, text = ""]) => text));
}

function planner(): (written: Written) => Step[] {
  const db = openMigrated();
  for (const text of objectSchemas()) db.exec(text);
  return ({ where, text }) => {
    try {
      return db.prepare(`EXPLAIN QUERY PLAN ${text}`).all() as unknown as Step[];
    } catch (error) {
      throw new Error(`${where} cannot be planned (${String(error)}): ${text}`);
    }
  };
}

/** Parameters that are passed as JSON. */
const NAMED = /\bid IN \(SELECT (unhex\()?value/;

/** The steps of a query plan that grow with the table: a scan, and a sort of more than one instance's rows. */
function growing(plan: readonly Step[], text: string): string[] {
  return plan
    .filter(({ detail, parent }) => {
      // Rows that are named one by one among all rows of a tenant or of a state: `+state` makes the query use the names.
      if (/^SEARCH (?!.*\b(?:\w+_)?id=\?).*\(\w+=\?(?: AND \w+[=<>]\?)*\)$|^SEARCH .*\(tenant_id=\?\)$/.test(detail))
        return NAMED.test(text);
      if (detail.startsWith("SCAN ")) return !/VIRTUAL TABLE|CONSTANT ROW|^SCAN (pair|entries|given|told|\(subquery)/.test(detail);
      const searched = plan.filter((one) => one.parent === parent && one.detail.startsWith("SEARCH ")).map((one) => one.detail);
      return (
        detail.startsWith("USE TEMP B-TREE") && !searched.every((search) => /\((\w+_)?id=\?/.test(search) && !/\(tenant_id=\?/.test(search))
      );
    })
    .map(({ detail }) => detail);
}

it("K01 every statement of the engine reads from an index, for any size of its table", () => {
  const planOf = planner();
  // A lane has its own tables, in its object: they contain the waiting messages of one key.
  const statements = readSql(join(ROOT, "packages/millrace/src")).filter(({ where }) => !where.startsWith("lanes/"));
  expect(statements.length).toBeGreaterThan(100);
  const found = statements.flatMap((written) => growing(planOf(written), written.text).map((detail) => ({ ...written, detail })));
  expect(found.filter(({ where }) => !(where in READS_ALL)).map(({ where, detail, text }) => `${where}: ${detail}: ${text}`)).toEqual([]);
  expect(Object.keys(READS_ALL).filter((where) => !found.some((one) => one.where === where))).toEqual([]);
});
