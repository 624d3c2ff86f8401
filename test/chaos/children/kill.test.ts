import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import type { Answer } from "../worker.ts";
import { withEngine } from "../workshop.ts";

/** The round trips to D1 and the written rows of the whole engine, from its log. */
function counted(log: string): { trips: number; rows: number } {
  const batches = [...readFileSync(log, "utf8").matchAll(/\{"log":"d1","rows":(\d+)\}/g)];
  return { trips: batches.length, rows: batches.reduce((sum, [, rows]) => sum + Number(rows), 0) };
}

/** To run 500 children: MILLRACE_FULL_SIZE=true MILLRACE_TEST_LOGS=1 npx vitest run --project node test/chaos/children */
const { children, kills } = process.env.MILLRACE_FULL_SIZE === "true" ? { children: 500, kills: 2 } : { children: 30, kills: 2 };
const LOOK_MS = 250;
const PATIENCE_MS = 540_000;

it(`a parent of ${children} children that is killed ${kills} times starts each child once and gets each result once`, async () => {
  await withEngine(
    async ({ engine, database }) => {
      await fetch(engine.url);
      const before = counted(engine.log);
      const body = JSON.stringify(["fan", children]);
      const answer = (await (await fetch(`${engine.url}/door/fanOut`, { method: "POST", body })).json()) as Answer;
      const { instanceId } = ("gave" in answer ? answer.gave : {}) as { instanceId: string };
      expect(instanceId).toMatch(/^[0-9a-f]{32}$/);
      const stand = async () => {
        const found = await database.rows<{ status: string; n: number }>(
          "SELECT status, count(*) AS n FROM millrace_instances WHERE parent = ?1 GROUP BY status",
          instanceId,
        );
        return new Map(found.map(({ status, n }) => [status, n]));
      };
      const statusOf = async () =>
        (await database.rows<{ status: string }>("SELECT status FROM millrace_instances WHERE id = ?1", instanceId))[0]?.status;
      const begunAt = Date.now();
      let died = 0;
      for (; (await statusOf()) !== "complete"; await sleep(LOOK_MS)) {
        if (Date.now() - begunAt > PATIENCE_MS)
          throw new Error(`The parent is ${await statusOf()}; children: ${JSON.stringify([...(await stand())])}`);
        const all = [...(await stand()).values()].reduce((sum, n) => sum + n, 0);
        const ended = (await stand()).get("complete") ?? 0;
        // The first kill happens while children start, the second kill while children end.
        const isDue = died === 0 ? all > 0 : ended > children / 2;
        if (died < kills && isDue) {
          await engine.kill("runtime");
          died++;
          await engine.revive("runtime");
        }
      }
      const seconds = ((Date.now() - begunAt) / 1000).toFixed(1);
      const now = counted(engine.log);
      const [rowsPer, tripsPer] = [(now.rows - before.rows) / children, (now.trips - before.trips) / children];
      console.log(
        `${children} children of one parent, ${died} kills: ${seconds} s, for each child ${rowsPer.toFixed(1)} written rows and ${tripsPer.toFixed(2)} round trips to D1, keeper included`,
      );
      expect(rowsPer).toBeGreaterThan(0);
      expect(await stand()).toEqual(new Map([["complete", children]]));
      const rows = await database.rows<{ n: number; names: number }>(
        "SELECT count(*) AS n, count(DISTINCT name) AS names FROM probe_rows WHERE kind = 'fanned'",
      );
      expect(rows).toEqual([{ n: children, names: children }]);
      const ends = await database.rows<{ n: number }>(
        "SELECT count(*) AS n FROM millrace_waits WHERE instance_id = ?1 AND signal_id IS NOT NULL",
        instanceId,
      );
      expect(ends).toEqual([{ n: children }]);
    },
    { COUNT_D1: "true" },
  );
}, 600_000);
