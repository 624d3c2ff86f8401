import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { openMigrated } from "../migrations.ts";
import { readSql, type Written } from "./read-sql.ts";

const ROOT = join(import.meta.dirname, "../..");

/**
 * Statements that scan or sort more than one instance's rows, and the reason why that does not grow over the years. All other
 * statements read their result from an index.
 */
const READS_ALL: Record<string, string> = {
  "inspect/health.ts assertSchema": "The tables and indexes of the database, some 250: they do not grow with the data.",
  "store/instances/look.ts anyInstance": "One row of an index, when an operator deploys.",
  "store/actions.ts selectOldActions": "The audit, once a day: an index would be a written row for each.",
  "store/tokens.ts removeExpired": "Tokens, once a day: an index would be a written row for each.",
  "store/tokens.ts selectFamilyOwner": "Tokens, when an operator revokes one from the command line.",
  "store/schedule-runs.ts removeRuns": "Once a day: an index would be a written row for each run.",
  "store/fences.ts removeFences": "Fences, once a day: an index would be a written row for each write under a lock.",
  "store/failed-deliveries.ts removeOldFailures": "Recent failures, once a day: an index would be a written row for each.",
  "store/dead-letters.ts selectEscalated": "An index that holds only open letters that people have escalated, a thousand at most.",
  "store/bulk-actions.ts removeEndedBulk": "Bulk actions, once a day: an index would be a written row for each.",
  "store/bulk-items.ts removeOldItems": "The same, and from an index the items of old ended ones.",
  "store/bulk-lists.ts removeOldLists": "The same, of their lists.",
  "store/bulk-lists.ts freezeMembers": "An operator's items at one moment, at most 100,000 of them, sorted by age.",
  "operate/bulk/start.ts count": "The same, counted before it.",
  "operate/instances/retry.ts doneAgain": "The same, those among them that were undone.",
  "operate/bulk/doubt-verbs.ts byStep": "The same, by the steps that they are in doubt of.",
  "operate/bulk/filters.ts instanceMembers": "The same: open instances are read from an index with nothing else.",
  "keeper/prune-objects.ts refsAmong": "An index of messages with a payload in R2 only, once a day.",
  "inspect/effects.ts listEffects": "An index of effects in doubt only.",
  "store/outbox.ts removeUnsentOf": "The outbox, which contains unconfirmed messages only, when a tenant is deleted.",
  "store/waits.ts assignEvents": "Sorts the events and waits of the subjects that a batch is about.",
  "pull/letters.ts sql": "The dead letters of one queue, when a person pages through them.",
  "pull/storage.ts copy": "The dead letters of one queue, when a person puts one back.",
  "pull/storage.ts ripe": "Messages with an expired wait, sorted by their time of sending: from an index with nothing else.",
  "store/health.ts HEALTH": "Indexes, and a table, of open problems only: as many of each as its gauge counts.",
  "store/health.ts EXAMPLES": "The same, where such a gauge is not 0.",
  "store/tallies.ts selectTallies": "Tallies not merged yet: those of a minute.",
  "store/alerts.ts selectKnown": "An index that holds only alerts that are open.",
  "inspect/costs.ts newestRuns": "The newest 2,000 rows, in the order of their numbers.",
  "inspect/seen-steps.ts seenSteps": "The tenant's newest 200 instances, and 50 entries of each by its own primary key.",
  "inspect/search/others.ts jobs": "From id to id of an index, six at most.",
  "inspect/correlation/members.ts selectInstances": "500 entries of each instance of a page, by its primary key.",
  "inspect/correlation/members.ts countEmitted": "The same of one instance.",
  "inspect/search/instances.ts byUndo": "The newest 500 actions.",
  "store/instances/callback.ts selectOwed": "An index of ends only that an address has not received yet.",
  "inspect/instances.ts listInstances": "Open instances, from an index with nothing else; sorted, because the keeper's order is another.",
};

interface Step {
  id: number;
  parent: number;
  detail: string;
}

/** The tables that an object of the engine makes for itself: `SCHEMA`, in the file of its rows. */
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

/** Names that are handed over as JSON. */
const NAMED = /\bid IN \(SELECT (unhex\()?value/;

/** The steps of a plan that grow with the table: a scan, and a sort of more than one instance's rows. */
function growing(plan: readonly Step[], text: string): string[] {
  return plan
    .filter(({ detail, parent }) => {
      // Rows that are named one by one, and searched among all of a tenant or of a state: `+state` makes the query use their names.
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
