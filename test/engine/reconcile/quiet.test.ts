import type { Check } from "millrace/worker";
import { expect, it } from "vitest";
import { listDivergences } from "../../../packages/millrace/src/inspect/divergences.ts";
import { readCounted } from "../../../packages/millrace/src/observe/metrics/folding.ts";
import { readGauges } from "../../../packages/millrace/src/observe/metrics/vitals.ts";
import { dieAt, expireLeases, fresh, keeperRound, probeEnv, rows, start, statusOf, until } from "../harness.ts";
import { lookAgain, walk, withDuties } from "./walking.ts";

const gaugesNow = async () => readGauges(probeEnv, [], await readCounted(probeEnv, Date.now()));

/** Starts instances with effects of each class and an event, which are running during the scan. */
function busy(count: number): Promise<string[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      const { instanceId } = await start(fresh("busy"), [
        { do: "keyed", name: "k", emit: true },
        [
          { do: "lookup", name: "l" },
          { do: "once", name: "o" },
        ],
        { do: "commit", name: "c" },
      ]);
      return instanceId;
    }),
  );
}

const confirmed = (ids: readonly string[]) =>
  rows(
    `SELECT kind, what, says FROM millrace_divergences WHERE state NOT IN ('suspected') AND what IN (SELECT value FROM json_each(?1))`,
    JSON.stringify(ids),
  );

const suspected = async (ids: readonly string[]) =>
  (
    await rows<{ what: string }>(
      "SELECT what FROM millrace_divergences WHERE state = 'suspected' AND what IN (SELECT value FROM json_each(?1))",
      JSON.stringify(ids),
    )
  ).map(({ what }) => what);

it("unfinished work is never confirmed as a divergence, for any number of scans", async () => {
  const ids = await busy(12);
  const open = () =>
    rows("SELECT 1 FROM millrace_instances WHERE status <> 'complete' AND id IN (SELECT value FROM json_each(?1))", JSON.stringify(ids));
  for (let walks = 0; walks < 200 && (await open()).length > 0; walks++) {
    await walk();
    await scheduler.wait(250);
  }
  expect(await open()).toEqual([]);
  await lookAgain(...(await suspected(ids)));
  await walk();
  expect(await confirmed(ids)).toEqual([]);
  expect(await suspected(ids)).toEqual([]);
});

it("work that a crash interrupted is not a divergence after the keeper's round", async () => {
  const names = ["A03 accept committed, not enqueued", "W01 claimed, effect not started", "W03 effect done, not recorded"] as const;
  const ids: string[] = [];
  for (const point of names) {
    const name = fresh("killed");
    dieAt(point, point.startsWith("A03") ? undefined : name);
    await start(name, [
      { do: "lookup", name: "l" },
      { do: "commit", name: "c" },
    ]).catch(() => undefined);
    await walk();
    ids.push(...(await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", name)).map(({ id }) => id));
  }
  for (const id of ids) {
    await expireLeases(id);
    const healed = async () => {
      await keeperRound();
      return statusOf(id);
    };
    expect(await until(healed, (status) => status === "complete" || status === "errored")).toBe("complete");
  }
  await lookAgain(...(await suspected(ids)));
  await walk();
  expect(await confirmed(ids)).toEqual([]);
});

it("a failing check of the reconciliation scan does not stop other checks, and continues an hour later from its position", async () => {
  const seen: (string | null)[] = [];
  let breaks = true;
  const ours: Check = {
    name: fresh("ours"),
    everyHours: 1,
    kinds: {},
    async slice(_env, from) {
      seen.push(from);
      if (from === "2" && breaks) throw new Error("Broken.");
      return { found: [], next: from === null ? "1" : from === "3" ? null : String(Number(from) + 1) };
    },
  };
  const next: Check = { ...ours, name: fresh("next"), slice: async () => ({ found: [], next: null }) };
  await withDuties([ours, next], async (round, storage) => {
    type Turns = Record<string, { dueAt: number; from: string | null }>;
    const turns = async () => (await storage.get<Turns>("reconcile")) ?? {};
    while ((await turns())[next.name] === undefined) await round();
    expect(seen).toEqual([null, "1", "2"]);
    const before = await turns();
    expect(before[ours.name]).toMatchObject({ from: "2" });
    breaks = false;
    await storage.put("reconcile", { ...before, [ours.name]: { dueAt: 0, from: "2" } });
    while ((await turns())[ours.name]?.from !== null) await round();
    expect(seen).toEqual([null, "1", "2", "2", "3"]);
  });
});

it("each divergence is counted by its kind, and listed for its tenant", async () => {
  const [kind, tenantId] = [fresh("kind"), fresh("tenant")];
  const found = ["a", "b"].map((what) => ({ kind, what: `${kind}-${what}`, tenantId, place: "", detail: "The two records disagree." }));
  const ours: Check = { name: fresh("ours"), everyHours: 1, kinds: { [kind]: { says: "" } }, slice: async () => ({ found, next: null }) };
  const counted = async () => (await gaugesNow()).filter(({ labels }) => labels.kind === kind);
  await withDuties([ours], async (round) => {
    while ((await rows("SELECT 1 FROM millrace_divergences WHERE kind = ?1", kind)).length < 2) await round();
    expect(await counted()).toEqual([]);
    await probeEnv.DB.prepare("UPDATE millrace_divergences SET look_at = 1 WHERE kind = ?1").bind(kind).run();
    while ((await counted()).length === 0) await round();
    expect(await counted()).toEqual([{ name: "divergences", labels: { kind }, value: 2 }]);
    // Both rows have the same count, because one slice checks all of its rows.
    expect(await rows("SELECT times, state FROM millrace_divergences WHERE kind = ?1", kind)).toEqual([
      { times: 2, state: "open" },
      { times: 2, state: "open" },
    ]);
  });
  const asker = { tenantId, actor: "tess", scopes: ["read"] };
  expect((await listDivergences(probeEnv, asker, { kind })).items).toHaveLength(2);
  expect((await listDivergences(probeEnv, { ...asker, tenantId: "other", scopes: ["observe"] }, { kind })).items).toHaveLength(2);
  const first = await listDivergences(probeEnv, asker, { kind, limit: 1 });
  const second = await listDivergences(probeEnv, asker, { kind, limit: 1, cursor: first.next ?? "" });
  expect(new Set([...first.items, ...second.items].map(({ what }) => what)).size).toBe(2);
  await probeEnv.DB.prepare("DELETE FROM millrace_divergences WHERE kind = ?1").bind(kind).run();
});
