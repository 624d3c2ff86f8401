import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { contactBookOf, resolveContacts } from "../../../src/systems/facts/derived/contact-books.ts";
import { foldMerges, type Merge, orderOf } from "../../../src/systems/facts/merges.ts";
import { callerWith, expectProblem, fresh } from "../../api/client.ts";
import { chances, deliver, recordedFact, shuffled } from "./derived.ts";

const START = Date.parse("2026-10-01T00:00:00Z");

/** Merges as `from>into`, a minute apart in the order in which they are written; `@n` sets another minute. */
function merges(...words: string[]): Merge[] {
  return words.map((word, index) => {
    const [, from = "", into = "", minute = String(index)] = /^(\w+)>(\w+)(?:@(\d+))?$/.exec(word) ?? [];
    const occurred_at = new Date(START + Number(minute) * 60_000).toISOString();
    return { entity: "contacts", fact_id: `m${index}`, occurred_at, from, into };
  });
}

const folded = (list: readonly Merge[]) => Object.fromEntries(foldMerges(list.map((merge) => ({ ...merge, order: orderOf(merge) }))));

describe("Canonical contacts after merges", () => {
  it.each([
    ["one merge", ["a>b"], { a: "b", b: "b" }],
    ["a chain of merges", ["a>b", "b>c"], { a: "c", b: "c", c: "c" }],
    ["a chain of merges from its end", ["b>c", "a>b"], { a: "c", b: "c", c: "c" }],
    ["a star", ["a>x", "b>x", "c>x"], { a: "x", b: "x", c: "x", x: "x" }],
    ["two opposite merges", ["a>b", "b>a"], { a: "b", b: "b" }],
    ["a cycle of three merges", ["a>b", "b>c", "c>a"], { a: "c", b: "c", c: "c" }],
    ["a merge with itself", ["a>a"], { a: "a" }],
    ["merges into two contacts, one after the other", ["a>b", "a>c"], { a: "c", b: "c", c: "c" }],
    ["two unrelated pairs", ["a>b", "c>d"], { a: "b", b: "b", c: "d", d: "d" }],
    ["a late report of an earlier merge", ["a>b@5", "b>a@1"], { a: "a", b: "a" }],
  ])("the canonical contact is correct for %s", (_, words, expected) => {
    const { ...known } = folded(merges(...words));
    expect(known).toEqual(expected);
  });

  it("times of different precision are ordered as times, and equal times by the fact's name", () => {
    const one = { entity: "e", fact_id: "1", occurred_at: "2026-10-01T00:00:00.500Z", from: "a", into: "b" };
    const other = { entity: "e", fact_id: "2", occurred_at: "2026-10-01T00:00:01Z", from: "b", into: "a" };
    expect(folded([other, one])).toEqual({ a: "b", b: "b" });
    expect(folded([{ ...other, occurred_at: one.occurred_at }, one])).toEqual({ a: "b", b: "b" });
    expect(folded([{ ...other, occurred_at: one.occurred_at, fact_id: "0" }, one])).toEqual({ a: "a", b: "a" });
  });

  it("a chain of 20,000 merges is as fast as a chain of two", () => {
    const list = Array.from({ length: 20_000 }, (_, index) => ({
      from: `c${index}`,
      into: `c${index + 1}`,
      order: String(index).padStart(6, "0"),
    }));
    for (const one of [list, [...list].reverse().map((merge, index) => ({ ...merge, order: String(index).padStart(6, "0") }))]) {
      const known = foldMerges(one);
      expect(known.size).toBe(20_001);
      expect(new Set(known.values())).toEqual(new Set(["c20000"]));
    }
  });
});

const contact = fc.constantFrom("a", "b", "c", "d", "e", "f", "__proto__", "é/1");
const edges = fc
  .array(fc.record({ from: contact, into: contact, minute: fc.integer({ min: 0, max: 20 }) }), { maxLength: 14 })
  .map((list) =>
    list.map(({ from, into, minute }, index) => ({
      entity: "contacts",
      fact_id: `m${index}`,
      occurred_at: new Date(START + minute * 60_000).toISOString(),
      from,
      into,
    })),
  );

describe("For any merges in any order, with any repeats,", () => {
  it("for any merges in any order, all connected contacts have the same canonical contact, which is one of them", () => {
    fc.assert(
      fc.property(edges, fc.integer(), (list, seed) => {
        const known = folded(list);
        expect(folded(shuffled([...list, ...list], chances(seed)))).toEqual(known);
        for (const { from, into } of list) expect(known[from]).toBe(known[into]);
        for (const canonical of Object.values(known)) expect(known[canonical]).toBe(canonical);
      }),
      { numRuns: 300 },
    );
  });

  it("the contacts object equals the computed merges after every merge, also after evictions", async () => {
    await fc.assert(
      fc.asyncProperty(edges, fc.integer(), async (list, seed) => {
        const book = contactBookOf(env, fresh("tenant"));
        const arriving = shuffled([...list, ...list.slice(0, 4)], chances(seed));
        const arrived: Merge[] = [];
        for (const [index, merge] of arriving.entries()) {
          if (index === 5) await evictDurableObject(book);
          await book.merge(merge);
          arrived.push(merge);
          const known = folded(arrived);
          const ids = Object.keys(known);
          expect(await book.resolve(ids)).toEqual(ids.map((id) => known[id]));
        }
      }),
      { numRuns: 40 },
    );
  });
});

describe("GET /v1/contacts/{id}", () => {
  it("GET /v1/contacts/{id} returns a contact's canonical id, and its other ids", async () => {
    const caller = await callerWith(["read"]);
    const facts = merges("a>b", "b>c", "c>a", "x>c").map(({ from, into, ...more }, index) =>
      recordedFact(caller.tenantId, "contact_merged", `m${index}`, { from, into }, more),
    );
    expect(await deliver(facts)).toEqual({ acked: 4, retried: 0 });
    const { body } = await caller.get("/v1/contacts/a");
    expect(body).toEqual({ contact_id: "a", canonical_id: "c", merged: ["a", "b", "x"], merged_count: 3 });
    expect((await caller.get("/v1/contacts/c")).body).toMatchObject({ canonical_id: "c", merged: ["a", "b", "x"] });
    expect(Object.fromEntries(await resolveContacts(env, caller.tenantId, ["a", "x", "nobody", "a"]))).toEqual({
      a: "c",
      x: "c",
      nobody: "nobody",
    });
  });

  it("GET /v1/contacts/{id} hides another tenant's merges: the same contact is separate for each tenant", async () => {
    const [caller, other] = [await callerWith(["read"]), await callerWith(["read"])];
    await deliver([recordedFact(other.tenantId, "contact_merged", "m", { from: "a", into: "b" })]);
    expect((await other.get("/v1/contacts/a")).body.canonical_id).toBe("b");
    expect((await caller.get("/v1/contacts/a")).body).toEqual({ contact_id: "a", canonical_id: "a", merged: [], merged_count: 0 });
  });

  it("GET /v1/contacts/{id} accepts names unchanged, and refuses invalid ones", async () => {
    const caller = await callerWith(["read"]);
    const [from, into] = ["who/is '; DROP TABLE contacts; --", "<b>ü</b>"];
    await deliver([recordedFact(caller.tenantId, "contact_merged", "m", { from, into })]);
    expect((await caller.get(`/v1/contacts/${encodeURIComponent(from)}`)).body).toMatchObject({ contact_id: from, canonical_id: into });
    expectProblem(await caller.get(`/v1/contacts/${"x".repeat(201)}`), 422, "invalid_payload");
    expectProblem(await caller.get("/v1/contacts/a%00b"), 422, "invalid_payload");
    expectProblem(await (await callerWith(["enqueue"])).get("/v1/contacts/a"), 403, "forbidden");
  });

  it("GET /v1/contacts/{id} lists the first thousand of very many contacts, and counts them all", async () => {
    const caller = await callerWith(["read"]);
    const book = contactBookOf(env, caller.tenantId);
    for (let index = 0; index < 1_100; index++) {
      const occurred_at = new Date(START + index).toISOString();
      await book.merge({ entity: "e", fact_id: `m${index}`, occurred_at, from: `c${String(index).padStart(4, "0")}`, into: "hub" });
    }
    const { body } = await caller.get("/v1/contacts/c0007");
    expect(body).toMatchObject({ canonical_id: "hub", merged_count: 1_100 });
    expect(body.merged).toHaveLength(1_000);
    expect(body.merged[0]).toBe("c0000");
  });
});

/** The rows that a contacts object reads and writes while this number of contacts are merged into one, in some order of their times. */
async function rowsOfMerging(count: number, minuteOf: (index: number) => number): Promise<number> {
  return runInDurableObject(contactBookOf(env, fresh("tenant")), (book, { storage: { sql } }) => {
    const cursors: SqlStorageCursor<Record<string, SqlStorageValue>>[] = [];
    const exec = sql.exec.bind(sql);
    sql.exec = ((...query: Parameters<typeof exec>) => {
      const cursor = exec(...query);
      cursors.push(cursor);
      return cursor;
    }) as typeof exec;
    for (let index = 0; index < count; index++) {
      const occurred_at = new Date(START + minuteOf(index)).toISOString();
      book.merge({ entity: "contacts", fact_id: `m${index}`, occurred_at, from: `c${index}`, into: "hub" });
    }
    sql.exec = exec;
    expect(book.contact("c0")).toMatchObject({ canonical_id: "hub", merged_count: count });
    return cursors.reduce((sum, { rowsRead, rowsWritten }) => sum + rowsRead + rowsWritten, 0);
  });
}

it.each([
  ["in the order of the merges' times", (index: number) => index],
  ["in the opposite order of the merges' times", (index: number) => 1_000_000 - index],
  ["in any order", (index: number) => (index * 7919) % 4001],
])("many merges into one contact that are reported %s each have the same cost for any number of earlier merges", async (_, minuteOf) => {
  const [few, many] = [await rowsOfMerging(300, minuteOf), await rowsOfMerging(1200, minuteOf)];
  expect(few).toBeGreaterThan(300);
  expect(many / few).toBeLessThan(4.4);
});
