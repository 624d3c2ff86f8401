import { env } from "cloudflare:workers";
import { type Statement, sql } from "millrace";
import { describe, expect, it } from "vitest";
import { GroupCommit, type Unit } from "../../../../packages/millrace/src/store/d1/group-commit.ts";
import { isSlow } from "../../../until.ts";
import { fresh, rows } from "../../harness.ts";

/** The real database with counts of its batches. `before` may throw instead of a batch, `after` instead of its answer. */
function watched({ before, after }: { before?: (batches: number) => unknown; after?: () => void } = {}) {
  const seen = { batches: 0, atOnce: 0, most: 0 };
  const db = {
    prepare: (text: string) => env.DB.prepare(text),
    async batch(statements: D1PreparedStatement[]) {
      seen.batches++;
      seen.most = Math.max(seen.most, ++seen.atOnce);
      try {
        await before?.(seen.batches);
        const answers = await env.DB.batch(statements);
        after?.();
        return answers;
      } finally {
        seen.atOnce--;
      }
    },
  } as unknown as D1Database;
  return { db, seen };
}

const INSERT = "INSERT INTO probe_rows (id, kind, name) SELECT value->>'id', value->>'kind', value->>'name' FROM json_each(?1) WHERE true";

/** A unit of a group commit that writes one row. The database refuses a row without a kind. */
function unit(name: string, id: string, kind: string | null = "group"): Unit<string> {
  return { statements: [{ text: INSERT, row: { id: `${name}/${id}`, kind, name } }], read: () => "committed" };
}

const recognised = (name: string, id: string): NonNullable<Unit<string>["already"]> => ({
  look: sql`SELECT 1 FROM probe_rows WHERE id = ${`${name}/${id}`}`,
  read: (found) => (found.length > 0 ? "there already" : undefined),
});

const count = async (name: string) => (await rows<{ n: number }>("SELECT count(*) AS n FROM probe_rows WHERE name = ?1", name))[0]?.n;
const numbers = (many: number) => Array.from({ length: many }, (_, index) => String(index));
const codes = async (all: Promise<unknown>[]) =>
  (await Promise.allSettled(all)).map((one) => (one.status === "fulfilled" ? one.value : (one.reason.code ?? "refused")));

describe("Group commit", () => {
  it("R01 the group commit rejects an invalid statement or value on entry, and other units commit in the same group", async () => {
    const name = fresh();
    const { db, seen } = watched();
    const commits = new GroupCommit(db);
    const odd = (statement: unknown) => commits.commit({ statements: [statement as Statement], read: () => "committed" });
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;
    const all = [
      commits.commit(unit(name, "first")),
      odd(undefined),
      odd(false),
      odd({ text: "SELECT ?1" }),
      odd({ text: "SELECT ?1", params: [undefined] }),
      odd({ text: INSERT, row: cycle }),
      odd({ text: "SELECT ?1", params: ["x".repeat(1_900_001)] }),
      commits.commit({ statements: [], read: () => "nothing to write" }),
      commits.commit(unit(name, "last")),
    ];
    expect(await codes(all)).toEqual([
      "committed",
      "config_invalid",
      "config_invalid",
      "config_invalid",
      "config_invalid",
      "refused",
      "payload_too_large",
      "nothing to write",
      "committed",
    ]);
    expect(await count(name)).toBe(2);
    expect(seen.batches).toBe(2);
  });

  it("callers with a committed write join the waiting writes, and not the next group", async () => {
    const { db, seen } = watched();
    const commits = new GroupCommit(db);
    const name = fresh();
    const caller = async (own: string) => {
      for (const nth of numbers(10)) {
        await commits.commit(unit(name, `${own}/${nth}`));
        // An answer and the next call of another object arrive within one turn of the event loop.
        for (let hop = 0; hop < 50; hop++) await undefined;
      }
    };
    await Promise.all(numbers(10).map(caller));
    expect(await count(name)).toBe(100);
    // The first write of the first caller is a separate batch. With two alternating groups there are 20 batches.
    expect(seen.batches).toBe(11);
  });

  it("R01 a database answer that one caller of the group commit cannot read fails only that caller", async () => {
    const name = fresh();
    const commits = new GroupCommit(env.DB);
    const unreadable = { ...unit(name, "a"), read: () => expect.unreachable("read") };
    expect(await codes([commits.commit(unreadable), commits.commit(unit(name, "b"))])).toEqual(["refused", "committed"]);
  });

  it("R01 the group commit finds the one refused write of a batch of 100 by halving the batch, and commits the other 99", async () => {
    const name = fresh();
    const { db, seen } = watched();
    const commits = new GroupCommit(db);
    const head = commits.commit(unit(name, "head"));
    const all = numbers(100).map((id) => commits.commit(unit(name, id, id === "61" ? null : "group")));
    const said = await codes([head, ...all]);
    expect(said.filter((one) => one === "committed")).toHaveLength(100);
    expect(said[62]).toBe("refused");
    expect(await count(name)).toBe(100);
    expect(seen.batches).toBeLessThanOrEqual(17);
    expect(seen.most).toBe(1);
  });

  it("R01 the group commit settles 100 writes with existing outcomes by one query when the database refuses their batch", async () => {
    const name = fresh();
    const { db, seen } = watched();
    const commits = new GroupCommit(db);
    await codes(numbers(100).map((id) => commits.commit(unit(name, id))));
    seen.batches = 0;
    const head = commits.commit(unit(name, "head"));
    const repeats = numbers(101).map((id) => commits.commit({ ...unit(name, id), already: recognised(name, id) }));
    const said = await codes([head, ...repeats]);
    expect(said.filter((one) => one === "there already")).toHaveLength(100);
    expect(await count(name)).toBe(102);
    expect(seen.batches).toBeLessThanOrEqual(6);
  });

  it("R01 a batch of the group commit that never returns times out: its writes get an unknown outcome, and later writes commit", async () => {
    const name = fresh();
    const { db } = watched({ before: (batches) => (batches === 1 ? new Promise(() => undefined) : undefined) });
    const commits = new GroupCommit(db, { answerWithinMs: isSlow ? 1000 : 50 });
    const all = [commits.commit(unit(name, "held")), commits.commit(unit(name, "behind"))];
    expect(await codes(all)).toEqual(["unavailable", "committed"]);
  });

  it("R02 the group commit sends an overloaded database one batch at a time, without halving it, and commits later writes", async () => {
    const name = fresh();
    let overloaded = true;
    const { db, seen } = watched({
      before: () => {
        if (overloaded) throw new Error("D1_ERROR: D1 DB is overloaded. Requests queued for too long.");
      },
    });
    const commits = new GroupCommit(db);
    const first = numbers(101).map((id) => commits.commit(unit(name, id)));
    expect(new Set(await codes(first))).toEqual(new Set(["unavailable"]));
    expect(seen).toMatchObject({ batches: 2, most: 1 });
    overloaded = false;
    expect(await codes(numbers(101).map((id) => commits.commit(unit(name, id))))).toEqual(Array(101).fill("committed"));
    expect(seen.most).toBe(1);
  });

  it("R02 after a database error the group commit stops halving its batch, and does not send the other half", async () => {
    const name = fresh();
    const { db, seen } = watched({
      before: (batches) => {
        if (batches > 3) throw new Error("D1_ERROR: D1 DB is overloaded. Too many requests queued.");
      },
    });
    const commits = new GroupCommit(db);
    const head = commits.commit(unit(name, "head"));
    const said = await codes([head, ...numbers(100).map((id) => commits.commit(unit(name, id, id === "0" ? null : "group")))]);
    expect(said.filter((one) => one === "unavailable")).toHaveLength(100);
    expect(seen.batches).toBe(4);
  });

  it("R02 the group commit's queue has a limited number of writes and bytes, and refuses further writes with a delay until a retry", async () => {
    const name = fresh();
    for (const bounds of [{ waitingUnits: 3 }, { waitingBytes: 300 }]) {
      const commits = new GroupCommit(env.DB, bounds);
      const long = (id: string) => unit(`${name}/${"x".repeat(60)}`, `${id}/${crypto.randomUUID()}`);
      const all = numbers(10).map((id) => commits.commit(long(id)));
      const said = await codes(all);
      expect(said.slice(0, 2)).toEqual(["committed", "committed"]);
      expect(said.at(-1)).toBe("unavailable");
      const refusal = await all.at(-1)?.catch((error) => error);
      expect(refusal).toMatchObject({ code: "unavailable", detail: { delayMs: expect.any(Number) } });
      expect(await commits.commit(long("later"))).toBe("committed");
    }
  });

  it("R02 the group commit sends rows with the same SQL text as several parameters when one parameter would be too large", async () => {
    const name = fresh();
    const { db, seen } = watched();
    const commits = new GroupCommit(db, { groupBytes: 10_000_000 });
    const wide = (id: string) => unit(name, id, "\u0001".repeat(100_000));
    const head = commits.commit(unit(name, "head"));
    expect(await codes([head, ...numbers(12).map((id) => commits.commit(wide(id)))])).toEqual(Array(13).fill("committed"));
    expect(await count(name)).toBe(13);
    expect(seen.batches).toBe(2);
    await env.DB.prepare("DELETE FROM probe_rows WHERE name = ?1").bind(name).run();
  });

  it.each(["", "  -- nothing\n", "SELECT 'a;b' AS said /* ; */ ;", "SELECT 1; SELECT 2", "SELECT 1 AS said; ; DELETE FROM probe_rows;"])(
    "R01 T01 each caller of the group commit gets its own answer, for any SQL text of another caller (%j)",
    async (text) => {
      const { db } = watched();
      const commits = new GroupCommit(db);
      const asks = (said: string) =>
        commits.commit({
          statements: [sql`SELECT ${said} AS said`, sql`SELECT ${said} AS said`],
          read: (answers) => answers.map(([row]) => row?.said),
        });
      const head = asks("head");
      const odd = commits.commit({ statements: [{ text, params: [] }], read: () => "committed" }).catch((error) => error.code);
      const [, refused, ...heard] = await Promise.all([head, odd, ...["acme", "globex", "initech"].map(asks)]);
      expect(heard).toEqual(["acme", "globex", "initech"].map((said) => [said, said]));
      expect(refused).toBe(
        text
          .replace("'a;b'", "")
          .replace("/* ; */", "")
          .split(";")
          .filter((part) => part.trim()).length > 1
          ? "config_invalid"
          : "committed",
      );
    },
  );
});
