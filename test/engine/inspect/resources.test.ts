import { beforeAll, describe, expect, it } from "vitest";
import { type Caller, callerWith, type Json, send } from "../../api/client.ts";
import { seedEffect } from "../../api/seed.ts";
import { fresh, rows as run, until } from "../harness.ts";
import { ada, lettered, REDACTED, told } from "./told.ts";

/** A read of the document: a list, or one resource. */
interface Read {
  readonly path: string;
  readonly scopes: readonly string[][];
  readonly filters: readonly Json[];
  /** The schema of a list's rows; undefined for one resource. */
  readonly row: Json | undefined;
}

/** Lists that no row of this test is in, with the test that reads them. */
const READ_ELSEWHERE = ["/v1/limits", "/v1/locks"];
/** Resources of the deployment: no tenant owns them. */
const OF_DEPLOYMENT = ["/v1/alerts"];

let document: Json;
let reads: Read[];
let owner: Caller;
let person: ReturnType<typeof ada>;
/** The owner's items, by the path that names them. */
let names: Record<string, Record<string, string>>;

const resolved = (schema: Json): Json =>
  schema?.$ref
    ? resolved(
        schema.$ref
          .slice(2)
          .split("/")
          .reduce((at: Json, key: string) => at[key], document),
      )
    : schema;

const pathOf = ({ path }: Read) => {
  const own = Object.entries(names).find(([start]) => path.startsWith(`${start}/`))?.[1] ?? {};
  return path.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(own[name] ?? `no ${name} is known: add it in this test`));
};

async function read(by: Caller, path: string): Promise<{ status: number; items: Json[]; text: string }> {
  const { status, body } = await by.get(path);
  return { status, items: body.items ?? [], text: JSON.stringify(body) };
}

beforeAll(async () => {
  document = (await send("/openapi.json")).body;
  reads = Object.entries<Json>(document.paths).flatMap(([path, { get }]) => {
    const schema = resolved(get?.responses[200]?.content?.["application/json"]?.schema);
    const parameters: Json[] = (get?.parameters ?? []).map(resolved).filter((one: Json) => one.in === "query");
    if (get?.["x-command"] === undefined || !schema || parameters.some(({ required }) => required)) return [];
    const row = schema.properties?.next_cursor && resolved(schema.properties.items.items);
    const filters = parameters.filter(({ name }) => !["cursor", "limit", "reveal"].includes(name));
    return [{ path, row, filters, scopes: get.security.flatMap(({ bearer }: Json) => (bearer ? [bearer] : [])) }];
  });
  owner = await callerWith(["read", "operate", "tokens", "observe", "enqueue"], "acme");
  // Without digits, quotes and @, so that a cause treats no part of it as variable.
  person = { ...ada(), email: `Lovelace of ${fresh("a").replaceAll(/[^a-z]/g, "q")}` };
  const [asking, failed, letter] = [await told(person), await told(person, "fails"), await lettered({ name: 7, person })];
  await run("UPDATE millrace_dead_letters SET error = ?2 WHERE id = ?1", letter.id, `No mailbox ${person.email}.`);
  const { items: asked } = await read(owner, `/v1/approvals?instance=${asking}`);
  const { body: bulk } = await owner.post("/v1/bulk-actions", { verb: "retry", ids: [failed], reason: "once more" });
  await until(
    () => read(owner, `/v1/bulk-actions/${bulk.id}/items?result=failed`),
    ({ items }) => items.length > 0,
  );
  const schedule = fresh("schedule");
  const command = { type: "lab.requested", payload: { name: fresh("timed") } };
  await owner.call("PUT", `/v1/schedules/${schedule}`, { cron: "0 9 * * 1", command, reason: "because" });
  await owner.post(`/v1/schedules/${schedule}/run`, { reason: "because" });
  const [lane, now] = [fresh("lane"), Date.now()];
  await run(
    `INSERT INTO millrace_lanes (tenant_id, lane, key, state, why, depth, oldest_at, head, ahead, recorded_at)
     VALUES ('acme', ?1, 'k', 'paused', 'w', 1, ?2, NULL, '[]', ?2)`,
    lane,
    now,
  );
  await run(
    `INSERT INTO millrace_divergences (kind, what, tenant_id, found_by, place, says, state, first_at, seen_at, look_at)
     VALUES ('test', ?1, 'acme', 'test', '', 's', 'open', ?2, ?2, ?2)`,
    lane,
    now,
  );
  await run(
    `INSERT INTO millrace_alerts (id, rule, labels, state, severity, value, examples, since, last_at, updated_at, version)
     VALUES (?3, ?1, '{}', 'pending', 'warning', 1, '[]', ?2, ?2, ?2, 1)`,
    lane,
    now,
    lane.padEnd(32, "0"),
  );
  const key = await seedEffect(failed);
  await run("UPDATE millrace_inbox SET input = json_object('to', ?2) WHERE instance_id = ?1 AND state = 'in_doubt'", failed, person.email);
  names = {
    "/v1/instances": { id: asking },
    "/v1/effects": { key },
    "/v1/correlations": { id: (await owner.get(`/v1/instances/${failed}`)).body.correlation_id },
    "/v1/dead-letters": { id: letter.id },
    "/v1/approvals": { id: asked[0]?.id },
    "/v1/bulk-actions": { id: bulk.id },
    "/v1/schedules": { name: schedule },
    "/v1/lanes": { lane, key: "k" },
    "/v1/locks": { name: lane },
  };
  // Other tests count the open problems of the deployment.
  return async () => {
    await run("DELETE FROM millrace_inbox WHERE instance_id = ?1 AND state = 'in_doubt'", failed);
    await run("DELETE FROM millrace_lanes WHERE lane = ?1", lane);
    await run("DELETE FROM millrace_divergences WHERE what = ?1", lane);
    await run("DELETE FROM millrace_alerts WHERE rule = ?1", lane);
  };
});

describe("Resources", () => {
  it("the rows of another tenant are in no list, and no read of one resource shows them", async () => {
    const stranger = await callerWith(["read", "operate", "tokens", "enqueue"], fresh("stranger"));
    const [, token = ""] = owner.token.split("_");
    const own = [...Object.values(names).flatMap((one) => Object.values(one)), token].filter((name) => name.length > 4);
    const wrong: string[] = [];
    for (const one of reads.filter(({ path }) => !OF_DEPLOYMENT.includes(path))) {
      const path = pathOf(one);
      const [mine, theirs] = [await read(owner, path), await read(stranger, path)];
      if (one.row && mine.items.length === 0 && !READ_ELSEWHERE.includes(path)) wrong.push(`${path} has no row of the owner: add one.`);
      const shown = own.filter((name) => theirs.text.includes(name) && !path.includes(name));
      const same = one.row && theirs.items.some((row) => mine.items.some((other) => JSON.stringify(other) === JSON.stringify(row)));
      if (shown.length > 0 || same) wrong.push(`${path} shows ${shown} to another tenant.`);
    }
    expect(reads.length).toBeGreaterThan(25);
    expect(wrong).toEqual([]);
  });

  it("each documented filter of a list changes the answer, or its value is refused", async () => {
    const wrong: string[] = [];
    for (const one of reads.filter(({ row, path }) => row && !READ_ELSEWHERE.includes(path))) {
      const path = `${pathOf(one)}?limit=200`;
      const { text: all } = await read(owner, path);
      for (const { name, schema } of one.filters) {
        const values = schema.enum ?? (schema.format === "date-time" ? ["1999-01-01T00:00:00Z", "2099-01-01T00:00:00Z"] : ["x1"]);
        const answers = await Promise.all(values.map((value: string) => read(owner, `${path}&${name}=${encodeURIComponent(value)}`)));
        if (answers.every(({ status, text }) => status === 200 && text === all)) wrong.push(`${one.path} ignores ${name}.`);
      }
    }
    expect(wrong).toEqual([]);
  });

  it("the marked fields of a row hide sensitive texts, and no other field of the row has them", async () => {
    const wrong: string[] = [];
    const marked = reads.filter(({ row }) => row && marksIn(row).length > 0);
    for (const one of marked) {
      const { items, text } = await read(owner, `${pathOf(one)}?limit=200`);
      const hidden = new Set(items.flatMap((row) => hiddenIn(row)));
      const marks = marksIn(one.row as Json);
      if (text.toLowerCase().includes(person.email.toLowerCase())) wrong.push(`${one.path} shows a sensitive text.`);
      if (hidden.size === 0) wrong.push(`${one.path} has no row with a sensitive text: add one.`);
      for (const field of hidden) if (!marks.some((mark) => field.startsWith(mark))) wrong.push(`${one.path} does not mark ${field}.`);
    }
    expect(marked.length).toBeGreaterThan(4);
    expect(wrong).toEqual([]);
  });
});

/** The paths of the marked fields of a schema. */
function marksIn(schema: Json, at = ""): string[] {
  const one = resolved(schema) ?? {};
  if (schema?.["x-redacted"] !== undefined || one["x-redacted"] !== undefined) return [at];
  const inner = [...(one.anyOf ?? []), ...(one.items ? [one.items] : [])].flatMap((part) => marksIn(part, at));
  return [...inner, ...Object.entries<Json>(one.properties ?? {}).flatMap(([name, field]) => marksIn(field, `${at}.${name}`))];
}

/** The paths of the fields of a value that have a hidden text. */
function hiddenIn(value: unknown, at = ""): string[] {
  if (typeof value === "string") return value.includes(REDACTED) ? [at] : [];
  if (Array.isArray(value)) return value.flatMap((one) => hiddenIn(one, at));
  return value === null || typeof value !== "object" ? [] : Object.entries(value).flatMap(([name, one]) => hiddenIn(one, `${at}.${name}`));
}
