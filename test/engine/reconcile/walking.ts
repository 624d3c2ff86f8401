import { runInDurableObject } from "cloudflare:test";
import { type Check, keeperOf } from "millrace/worker";
import { engineChecks } from "../../../packages/millrace/src/reconcile/walk.ts";
import { app, type Keeper } from "../../probe/worker.ts";
import { probeEnv, rows } from "../harness.ts";

/** All checks of the engine, for this catalog. */
export const CHECKS = engineChecks(app);

/** A finding of the reconciliation scan about an item. */
export interface Noted {
  kind: string;
  state: string;
  repairs: number;
  says: string;
}

/**
 * During this function the probe's keeper has a catalog, and these checks in addition to the engine's. Without a catalog it starts no
 * schedules.
 */
export async function withDuties(
  checks: readonly Check[],
  work: (round: () => Promise<unknown>, storage: DurableObjectStorage) => Promise<void>,
): Promise<void> {
  await runInDurableObject(keeperOf(probeEnv), async (keeper, { storage }) => {
    const own = keeper as unknown as { duties: object; round(): Promise<unknown> };
    const before = own.duties;
    // The keeper's alarm is delayed, because its round would check the same items at the same time.
    const rings = (inMs: number) => storage.setAlarm(Date.now() + inMs);
    for (await rings(3_600_000); (keeper as Keeper).underWay > 0; await rings(3_600_000)) await scheduler.wait(20);
    own.duties = { ...before, catalog: app, checks };
    try {
      await work(() => own.round(), storage);
    } finally {
      own.duties = before;
      await rings(1000);
    }
  });
}

/** Runs rounds of the keeper until every check has scanned all records. */
export function walk(): Promise<void> {
  return withDuties([], async (round, storage) => {
    await storage.delete("reconcile");
    for (let rounds = 0; rounds < 100; rounds++) {
      await round();
      const turns = Object.values((await storage.get<Record<string, { dueAt: number }>>("reconcile")) ?? {});
      if (turns.length >= CHECKS.length && turns.every(({ dueAt }) => dueAt > Date.now())) return;
    }
    throw new Error("The scan has not ended.");
  });
}

/** Makes the next check of these items due, and runs rounds of the keeper until they are checked. */
export async function lookAgain(...whats: readonly string[]): Promise<void> {
  const due = "look_at <= ?2 AND what IN (SELECT value FROM json_each(?1))";
  const list = JSON.stringify(whats);
  await probeEnv.DB.prepare(
    "UPDATE millrace_divergences SET look_at = 1 WHERE look_at IS NOT NULL AND what IN (SELECT value FROM json_each(?1))",
  )
    .bind(list)
    .run();
  await withDuties([], async (round) => {
    for (let rounds = 0; rounds < 100; rounds++) {
      await round();
      if ((await rows(`SELECT 1 FROM millrace_divergences WHERE ${due}`, list, Date.now())).length === 0) return;
    }
    throw new Error("Some items were not checked.");
  });
}

/** The findings about an item. */
export const noted = (what: string) =>
  rows<Noted>("SELECT kind, state, repairs, says FROM millrace_divergences WHERE what = ?1 ORDER BY kind", what);
