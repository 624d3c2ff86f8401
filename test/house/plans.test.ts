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
  "inspect/health.ts assertSchema": "The tables and indexes of the database, about 250: their number does not grow with the data.",
  "store/instances/look.ts anyInstance": "One row of an index, when an operator deploys.",
  "store/actions.ts selectOldActions": "The audit, scanned once a day: an index would add a written row per audit row.",
  "store/tokens.ts removeExpired": "Tokens, scanned once a day: an index would add a written row per token.",
  "store/tokens.ts selectFamilyOwner": "Tokens, scanned when an operator revokes one from the command line.",
  "store/schedule-runs.ts removeRuns": "Scanned once a day: an index would add a written row per instance.",
  "store/fences.ts removeFences": "Fences, scanned once a day: an index would add a written row per write under a lock.",
  "store/failed-deliveries.ts removeOldFailures": "Recent failures, scanned once a day: an index would add a written row per failure.",
  "store/dead-letters.ts selectEscalated": "An index that holds only open, escalated dead letters, at most 1,000.",
  "store/bulk-actions.ts removeEndedBulk": "Bulk actions, scanned once a day: an index would add a written row per action.",
  "store/bulk-items.ts removeOldItems": "Bulk actions, scanned once a day, with an index for the items of old ended ones.",
  "store/bulk-lists.ts removeOldLists": "The lists of bulk actions, scanned once a day.",
  "store/bulk-lists.ts freezeMembers": "The items of an operator's selection, at most 100,000, sorted by age.",
  "operate/bulk/start.ts count": "The count of the items of an operator's selection, at most 100,000.",
  "operate/instances/retry.ts doneAgain": "The undone items of an operator's selection, at most 100,000.",
  "operate/bulk/doubt-verbs.ts byStep": "The items of an operator's selection by the steps with unknown outcomes, at most 100,000.",
  "operate/bulk/filters.ts instanceMembers":
    "The items of an operator's selection: open instances are read from an index with no other rows.",
  "keeper/prune-objects.ts refsAmong": "An index of messages with a payload in R2 only, once a day.",
  "inspect/effects.ts listEffects": "An index of effects with unknown outcomes only.",
  "store/outbox.ts removeUnsentOf": "The outbox, which contains unconfirmed messages only, when a tenant is deleted.",
  "store/waits.ts assignEvents": "Sorts the events and waits of one batch's subjects.",
  "pull/letters.ts sql": "The dead letters of one queue, when an operator pages through them.",
  "pull/storage.ts copy": "The dead letters of one queue, when an operator requeues one.",
  "pull/storage.ts ripe": "Messages with an expired wait, sorted by their time of sending, from an index with no other rows.",
  "store/health.ts HEALTH": "Indexes, and a table, of open problems only: as many of each kind as its gauge counts.",
  "store/health.ts EXAMPLES": "Open problems, read only while their gauge is not 0.",
  "store/tallies.ts selectTallies": "Counts that are not merged yet, of one minute.",
  "store/alerts.ts selectKnown": "An index that holds only alerts that are open.",
  "inspect/costs.ts newestRuns": "The newest 2,000 rows, in the order of their numbers.",
  "inspect/seen-steps.ts seenSteps": "The tenant's newest 200 instances, and 50 entries of each by its own primary key.",
  "inspect/search/others.ts jobs": "Between two ids of an index, six rows at most.",
  "inspect/correlation/members.ts selectInstances": "500 entries of each instance of a page, by its primary key.",
  "inspect/correlation/members.ts countEmitted": "500 entries of one instance, by its primary key.",
  "inspect/search/instances.ts byUndo": "The newest 500 actions.",
  "operate/pause-work.ts pauseWork": "Open instances, from an index with nothing else, when an operator pauses them.",
  "store/pauses.ts selectTripped": "An index that holds only pauses by breakers.",
  "store/instances/callback.ts selectOwed": "An index of ends only that an address has not received yet.",
  "inspect/instances.ts listInstances": "Open instances, from an index with nothing else; sorted, because the keeper's order is another.",
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
