import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { createApi } from "../../src/api/app.ts";
import { app } from "../../src/catalog.ts";
import { selectStanding } from "../../src/systems/webhooks/deliveries.ts";
import { watched } from "../systems/facts/watched.ts";
import { ALL_SCOPES, callerWith, send } from "./client.ts";
import { reads } from "./reads.ts";
import { seedBatch, seedInstance } from "./seed.ts";

/**
 * Lists that sort or scan, and the reason why their cost does not grow over the years. All other lists are read from an index in its
 * order.
 */
const SORTS: Record<string, string> = {
  "/v1/instances?status=accepted":
    "The list of open instances reads an index of open instances; SQLite sorts them, because the index has the keeper's order.",
  "/v1/instances?status=queued": "The same.",
  "/v1/instances?status=running": "The same.",
  "/v1/instances?status=waiting": "The same.",
  "/v1/instances?activity=": "The same.",
  "/v1/instances?status=complete&activity=": "The list of open items reads open items only.",
  "/v1/instances/counts?": "The counts are of the newest 2,000 rows of each index.",
  "/v1/effects?": "The list of unknown outcomes reads an index that has no other effects.",
  "/v1/divergences?": "The overview counts open items by kind, at most 10,000, from an index of open items.",
  "/v1/messages/dead-letters?":
    "The overview counts the last day's newest items by queue and type, at most 10,000, from the index by time.",
  "/v1/search?": "The search reads at most six jobs from the index of jobs, and the newest 500 actions.",
  "/v1/lanes/causes?": "The list of lanes counts at most 10,000 lanes, and reads the instance at the head of each by its primary key.",
  "/v1/correlations/{id}?": "A job counts at most 10,000 members, and reads 500 entries of each instance of a page by its primary key.",
  "/v1/catalog?": "The catalog reads the tenant's newest 200 instances, and 50 entries of each by its primary key.",
  "/v1/workflows?": "The list of workflows counts the tenant's newest 10,000 instances by status, from the index by time.",
  "/v1/costs?": "The costs are read from the newest 2,000 rows, in the order of their numbers.",
  "/v1/usage/text?": "The usage sums the requested days, from the index by day.",
};

interface Asked {
  text: string;
  params: unknown[];
}

/** A database that records every statement, with its values. */
function listening(): { DB: D1Database; asked: Asked[] } {
  const asked: Asked[] = [];
  const DB = new Proxy(env.DB, {
    get(db, method) {
      if (method !== "prepare") {
        const own = Reflect.get(db, method);
        return typeof own === "function" ? own.bind(db) : own;
      }
      return (text: string) => ({
        bind: (...params: unknown[]) => {
          asked.push({ text, params });
          return db.prepare(text).bind(...params);
        },
      });
    },
  });
  return { DB, asked };
}

interface Step {
  parent: number;
  detail: string;
}

/** Parameters that are passed as JSON. */
const NAMED = /\bid IN \(SELECT (unhex\()?value/;

/** The steps of a query plan that grow with a table: scans, and sorts of more than the rows of one instance, contact or record. */
async function growing({ text, params }: Asked): Promise<string[]> {
  const { results } = await env.DB.prepare(`EXPLAIN QUERY PLAN ${text}`)
    .bind(...params)
    .all<Step & Record<string, unknown>>();
  const isOfOne = (detail: string) => /\((\w+=\? AND )*(instance_id|id|contact_id|crm_id)=\?/.test(detail);
  return results
    .filter(({ detail, parent }) => {
      // Rows that are named one by one among all rows of a tenant: +tenant_id makes the query use the names.
      if (/^SEARCH .*\(tenant_id=\?\)$/.test(detail)) return NAMED.test(text);
      if (detail.startsWith("SCAN ")) return !/VIRTUAL TABLE|CONSTANT ROW|^SCAN \(?subquery/.test(detail);
      // The first loop of a join determines the number of rows.
      const outer = results.find((one) => one.parent === parent && /^(SEARCH|SCAN) /.test(one.detail))?.detail ?? "";
      return detail.startsWith("USE TEMP B-TREE") && !isOfOne(outer);
    })
    .map(({ detail }) => detail);
}

it("the audit of one target, also by its result, is read from that target's rows", async () => {
  const { token } = await callerWith(["read"]);
  const { db: DB, ran } = watched();
  const request = new Request("http://localhost/v1/audit?target=x1&result=applied", { headers: { authorization: `Bearer ${token}` } });
  expect((await createApi(app).fetch(request, { ...env, DB }, createExecutionContext())).status).toBe(200);
  expect(ran.flatMap(({ plan }) => plan).join()).toContain("millrace_actions_by_target (tenant_id=? AND target=?");
});

it("actions on one instance are read from its own rows, also with another filter", async () => {
  const { token } = await callerWith(["read"]);
  for (const more of ["", "&verb=retry", "&bulk=false"]) {
    const { db: DB, ran } = watched();
    const request = new Request(`http://localhost/v1/audit?instance=x1${more}`, { headers: { authorization: `Bearer ${token}` } });
    expect((await createApi(app).fetch(request, { ...env, DB }, createExecutionContext())).status).toBe(200);
    expect(ran.flatMap(({ plan }) => plan).join()).toContain("millrace_actions_by_instance (tenant_id=? AND instance_id=?");
  }
});

it("every list and every single item, by each filter and by each pair of filters, is read from an index in its order", {
  timeout: 120_000,
}, async () => {
  const caller = await callerWith([...ALL_SCOPES]);
  const instance = await seedInstance(caller.tenantId, { status: "complete" });
  const batch = await seedBatch(caller.tenantId, instance);
  expect((await caller.call("PUT", "/v1/brands/acme", {})).status).toBe(200);
  const api = createApi(app);
  const found: string[] = [];
  let looked = 0;
  const all = reads((await send("/openapi.json")).body);
  expect(all.length).toBeGreaterThan(30);
  for (const { path, queries } of all) {
    for (const query of queries) {
      const { DB, asked } = listening();
      const named = path
        .replace("/correlations/{id}", `/correlations/job-${instance}`)
        .replace("/keys/{key}", `/keys/${instance}`)
        .replace("/instances/{id}", `/instances/${instance}`)
        .replace("/batches/{id}", `/batches/${batch}`)
        .replace("{brand}", "acme");
      const request = new Request(`http://localhost${named.replaceAll(/\{\w+\}/g, "x1")}?${query}`, {
        headers: { authorization: `Bearer ${caller.token}` },
      });
      const response = await api.fetch(request, { ...env, DB }, createExecutionContext());
      await response.text();
      for (const one of asked) {
        looked++;
        for (const step of await growing(one))
          found.push(`${path}?${query}: ${step}: ${one.text.replaceAll(/\s+/g, " ").slice(0, 200)} (${response.status})`);
      }
    }
  }
  expect(looked).toBeGreaterThan(200);
  expect(found.filter((one) => !Object.keys(SORTS).some((known) => one.startsWith(known)))).toEqual([]);
  expect(Object.keys(SORTS).filter((known) => !found.some((one) => one.startsWith(known)))).toEqual([]);
});

it("named deliveries are found by their names, without a scan of all deliveries of their tenant", async () => {
  const { text, params } = selectStanding("acme", ["a"]);
  const { results } = await env.DB.prepare(`EXPLAIN QUERY PLAN ${text}`)
    .bind(...params)
    .all<Step>();
  expect(results.map(({ detail }) => detail)).toContainEqual(expect.stringMatching(/^SEARCH d USING .*\(id=\?\)$/));
});
