import { runInDurableObject } from "cloudflare:test";
import { type Check, keeperOf } from "millrace/worker";
import { engineChecks } from "../../../packages/millrace/src/reconcile/checks.ts";
import { app, type Keeper } from "../../probe/worker.ts";
import { probeEnv, rows } from "../harness.ts";

/** Every check of the engine, as a keeper with this catalog makes them. */
export const CHECKS = engineChecks(app);

/** The findings of the scan about an item. */
export interface Noted {
  kind: string;
  state: string;
  mends: number;
  says: string;
}

/**
 * A keeper of the probe has its catalog, and these checks beside the engine's, during this function: without a catalog, it starts no
 * schedules either.
 */
export async function withDuties(
  checks: readonly Check[],
  work: (round: () => Promise<unknown>, storage: DurableObjectStorage) => Promise<void>,
): Promise<void> {
  await runInDurableObject(keeperOf(probeEnv), async (keeper, { storage }) => {
    const own = keeper as unknown as { duties: object; round(): Promise<unknown> };
    const before = own.duties;
    // A round of its own clock would check the same items at the same time.
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

/** A whole scan of all records, by rounds of the keeper. */
export function walk(): Promise<void> {
  return withDuties([], async (round, storage) => {
    await storage.delete("reconcile");
    for (let rounds = 0; rounds < 100; rounds++) {
      await round();
      const turns = Object.values((await storage.get<Record<string, { dueAt: number }>>("reconcile")) ?? {});
      if (turns.length >= CHECKS.length && turns.every(({ dueAt }) => dueAt > Date.now())) return;
    }
    throw new Error("The walk never ended.");
  });
}

/** The next check of these is due, and the keeper runs it. */
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
    throw new Error("Some were never looked at.");
  });
}

/** The findings about an item. */
export const noted = (what: string) =>
  rows<Noted>("SELECT kind, state, mends, says FROM millrace_divergences WHERE what = ?1 ORDER BY kind", what);
