import fc from "fast-check";
import { defineStep, type EffectCall, type Steps, sql, upstreamRefused } from "millrace";
import { instances } from "millrace/operate";
import { expect, it } from "vitest";
import type { Done } from "../../../packages/millrace/src/guard/step.ts";
import { operator, probeEnv, reaches, rows } from "../harness.ts";
import { errorOf, platformReaches, restartLab, runLab } from "../lab.ts";

/** A random workflow: a step, or parts in sequence, in parallel, over items, or as a race. */
type Tree = { do: "read" | "commit" | "effect" | "caught" | "choice" | "sleep" } | { do: "seq" | "all" | "map" | "race"; parts: Tree[] };

const leaf: fc.Arbitrary<Tree> = fc.record({ do: fc.constantFrom("read", "commit", "effect", "caught", "choice", "sleep") });
const { tree } = fc.letrec<{ tree: Tree }>((again) => ({
  tree: fc.oneof(
    { maxDepth: 3, depthSize: "medium" },
    leaf,
    fc.record({
      do: fc.constantFrom("seq", "all", "map", "race"),
      parts: fc.array(again("tree"), { minLength: 2, maxLength: 3 }),
    }),
  ),
}));

/** Waits a random time, also at every replay, because durations must not change the outcome. */
const sometime = () => scheduler.wait(Math.random() * 12);

/** Prepares the run of a tree. `told` lists its effects in order, by their place in the tree. */
function runOf(root: Tree) {
  const told: string[] = [];
  const back: string[] = [];
  const decided: string[][] = [];
  let broken = true;
  let refusing = true;
  const definition = defineStep({
    effect: "natural",
    retries: { limit: 0, delay: 10 },
    async run({ input }: EffectCall<{ at: string; mayFail: boolean }>) {
      await sometime();
      if (input.mayFail && refusing) throw upstreamRefused("not this time");
      told.push(input.at);
      return input.at;
    },
    undo: defineStep<Done<{ at: string }, string>, unknown>({ effect: "natural", run: async ({ input }) => back.push(input.output) }),
  });

  const pass = async (step: Steps, instanceId: string): Promise<void> => {
    const decisions: string[] = [];
    decided.push(decisions);
    const act = (on: Steps, name: string, at: string, mayFail = false) => on.effect(name as never, definition, { at, mayFail });
    // Parts of a map share a step name: the item's key distinguishes them.
    const go = async (on: Steps, what: Tree, name: string, at: string): Promise<unknown> => {
      switch (what.do) {
        case "read":
          return on.read(`read ${name}` as never, sometime);
        case "sleep":
          return on.sleep(`sleep ${name}` as never, 5);
        case "effect":
          return act(on, `effect ${name}`, at);
        case "commit":
          return on.commit(`commit ${name}` as never, async () => {
            await sometime();
            return { statements: [sql`INSERT INTO probe_rows (id, kind, name) VALUES (${`${instanceId}/${at}`}, 'branch', ${at})`] };
          });
        case "caught":
          return act(on, `try ${name}`, `${at} tried`, true).catch(() => act(on, `instead ${name}`, `${at} instead`));
        case "choice": {
          const chosen = await on.read(`choose ${name}` as never, () => sometime().then(() => at.length % 2));
          return chosen === 0 ? act(on, `even ${name}`, at) : on.commit(`odd ${name}` as never, () => ({}));
        }
        case "seq":
          for (const [index, part] of what.parts.entries()) await go(on, part, `${name}.${index}`, `${at}.${index}`);
          return undefined;
        case "all":
          return Promise.all(what.parts.map((part, index) => go(on, part, `${name}.${index}`, `${at}.${index}`)));
        case "map":
          return on.map(
            what.parts.map((part, index) => [part, `${index}`] as const),
            { key: ([, key]) => key, concurrency: 2 },
            ([part, key], each) => go(each, part, `${name}.m`, `${at}.${key}`),
          );
        case "race": {
          const winner = await Promise.race(
            what.parts.map((part, index) => go(on, part, `${name}.${index}`, `${at}.${index}`).then(() => index)),
          );
          decisions.push(`${at} ${winner}`);
          return act(on, `won ${name} ${winner}`, `${at} won by ${winner}`);
        }
      }
    };
    await go(step, root, "r", "r");
    await step.commit(
      "breaks at first",
      () => {
        if (broken) throw upstreamRefused("broken");
        return {};
      },
      { retries: { limit: 0, delay: 10 } },
    );
    await act(step, "end", "end");
  };
  const mend = () => {
    broken = false;
    refusing = false;
  };
  return { told, back, decided, pass, mend };
}

const hasRace = (what: Tree): boolean => "parts" in what && (what.do === "race" || what.parts.some(hasRace));

/** A decision is a text with the place of a race and the index of its winner. This function returns the place. */
const raceOf = (decision: string) => decision.split(" ")[0] ?? "";

/** The decisions without those of races inside a losing part. */
function withoutLosers(decisions: readonly string[]): string[] {
  const lost = (race: string) =>
    decisions.some((other) => {
      const [at, winner] = other.split(" ");
      return race.startsWith(`${at}.`) && race.slice(`${at}.`.length).split(".")[0] !== winner;
    });
  return decisions.filter((decision) => !lost(raceOf(decision))).toSorted();
}

async function holds(root: Tree): Promise<void> {
  const { told, back, decided, pass, mend } = runOf(root);
  const { instanceId } = await runLab(({ step, instanceId: id }) => pass(step, id));
  const ends = async (...statuses: string[]) => {
    const status = await reaches(instanceId, ...statuses);
    if (status !== statuses[0]) throw new Error(`${status}: ${JSON.stringify(await errorOf(instanceId))}`);
  };
  await ends("errored", "complete");
  await platformReaches(instanceId, "errored");
  mend();
  await instances.act(probeEnv, operator, "retry", instanceId, { reason: "mended" });
  await ends("complete", "errored");
  const first = told.toSorted();
  expect(await restartLab(instanceId)).toBe("complete");
  expect(await restartLab(instanceId)).toBe("complete");
  // Each loser of a race may execute one more step, once.
  if (!hasRace(root)) expect(told.toSorted()).toEqual(first);
  expect(told.length).toBe(new Set(told).size);
  // The number of steps of a loser depends on time. The winner of a race outside of losing parts does not.
  for (const decisions of decided) expect(withoutLosers(decisions)).toEqual(withoutLosers(decided[0] ?? []));
  expect(new Set(decided.flat().map(raceOf)).size).toBe(new Set(decided.flat()).size);
  expect(new Set(decided[0]).size).toBe(decided[0]?.length);

  await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
  await ends("terminated", "errored");
  const recorded = await rows<{ output: string }>(
    "SELECT output FROM millrace_inbox WHERE instance_id = ?1 AND class = 'natural' AND position >= 0 AND state IN ('done', 'superseded') ORDER BY position DESC",
    instanceId,
  );
  expect(back).toEqual(recorded.map(({ output }) => JSON.parse(output)));
}

it("W25 a run with any branches and latencies makes the same decisions and effects after a retry, two restarts and an undo", {
  timeout: 60_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(tree, { minLength: 8, maxLength: 8 }), async (trees) => {
      await Promise.all(
        trees.map((root) =>
          holds(root).catch((cause) => {
            throw new Error(`${JSON.stringify(root)}: ${cause}`, { cause });
          }),
        ),
      );
    }),
    { numRuns: 1, endOnFailure: true },
  );
});
