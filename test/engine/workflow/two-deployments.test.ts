import { abortAllDurableObjects } from "cloudflare:test";
import { afterAll, beforeAll, expect, it } from "vitest";
import { acceptCommands } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import { IS_FULL_SIZE } from "../../full-size.ts";
import { labs } from "../../probe/lab.ts";
import { replaysUnderWay, resetEngines, resetPrefixes } from "../../probe/strikes.ts";
import { app } from "../../probe/worker.ts";
import { askedOf, doneTo } from "../../proof/upstream.ts";
import { behave, deliver, fresh, happened, keeperRound, probeEnv, rows, until } from "../harness.ts";
import { resolve } from "../operate/operating.ts";
import { say } from "../signals/waiting.ts";
import { SHAPES, type Shaped, taking } from "./shapes.ts";
import { afterRounds, labId, timesErrored, unwatchErrored, WORDS, watchErrored } from "./struck.ts";

const RUNS = IS_FULL_SIZE ? 500 : 60;

beforeAll(watchErrored);
afterAll(unwatchErrored);

const chunks = <T>(all: readonly T[], size: number) =>
  Array.from({ length: Math.ceil(all.length / size) }, (_, nth) => all.slice(nth * size, (nth + 1) * size));

it("W34 two deployments in succession fail no run of twenty shapes in both step modes, and repeat no effect", {
  timeout: 1_200_000,
}, async ({ task }) => {
  const prefix = `${fresh("deploy")}/`;
  resetPrefixes.add(prefix);
  const kinds = Object.entries(SHAPES);
  const runs = Array.from({ length: RUNS }, (_, nth) => {
    const [title, shape] = kinds[nth % kinds.length] as (typeof kinds)[number];
    const steps = Math.floor(nth / kinds.length) % 2 === 0 ? ("platform" as const) : ("inline" as const);
    const run: Shaped = { name: `${prefix}${nth}`, steps };
    return { nth, title, shape, ...run, id: labId(`${prefix}${nth}`) };
  });
  const ids = runs.map(({ id }) => id);
  await behave(...runs.flatMap(({ name, shape }) => (shape.upstream ?? []).map((one) => ({ ...one, subject: `${name}/${shape.on}` }))));
  for (const { shape, ...run } of runs) {
    labs.set(run.name, async (call) => {
      const take = taking(call, run);
      await shape.code(take);
      // The last wait keeps every run active during both deployments.
      await take.hear("go");
      await take.commit("end");
    });
  }
  // The runs start in six groups, so that the first deployment finds some runs at their first steps and others at their last ones.
  for (const chunk of chunks(runs, Math.ceil(RUNS / 6))) {
    await scheduler.wait(300);
    await acceptCommands(
      probeEnv,
      app,
      { tenantId: "acme", source: "test" },
      chunk.map(({ name }) => ({ type: "lab.requested", payload: { name } })),
    );
  }

  const deployment = WORDS["a deployment"] as () => Error;
  const allUnderWay = () =>
    until(
      async () => replaysUnderWay(prefix).size,
      (count) => count === RUNS,
      300_000,
    );
  await allUnderWay();
  // The first deployment ends the engine processes. At the second one they survive and mark the instances as errored.
  const first = resetEngines(prefix, deployment, () => "dies");
  await abortAllDurableObjects();
  await keeperRounds(() => replaysUnderWay(prefix).size === RUNS);
  const second = resetEngines(prefix, deployment, () => "lives");
  await keeperRounds(() => replaysUnderWay(prefix).size === RUNS);
  for (const chunk of chunks(runs, 50))
    await deliver(
      "probe-events",
      chunk.map(({ name }) => say(`${name}/go`, "go")),
    );
  const doubts = new Set<string>();
  const statuses = await afterRounds(ids, {
    patienceMs: 900_000,
    // An interrupted attempt of a once effect leaves an unknown outcome. An operator checks the upstream and resolves the effect.
    async meanwhile() {
      const open = await rows<{ instance_id: string; step: string }>(
        "SELECT instance_id, step FROM millrace_inbox WHERE state = 'in_doubt' AND instance_id IN (SELECT value FROM json_each(?1))",
        JSON.stringify(ids),
      );
      for (const { instance_id: id, step } of open) {
        const name = runs.find((run) => run.id === id)?.name;
        const [found] = await happened(`${name}/${step}`);
        await resolve(id, step, found ? { verb: "confirm", output: found.id } : { verb: "retry_anyway" });
        doubts.add(`${name}/${step}`);
      }
    },
  });

  const done = await doneTo(probeEnv.UPSTREAM_URL, prefix);
  const asked = await askedOf(probeEnv.UPSTREAM_URL, prefix);
  const written = await rows<{ name: string }>("SELECT name FROM probe_rows WHERE kind = 'shape' AND name LIKE ?1", `${prefix}%`);
  const counted = (all: readonly string[], name: string) => {
    const own = all.filter((one) => one.startsWith(`${name}/`)).map((one) => one.slice(name.length + 1));
    return Object.fromEntries([...Map.groupBy(own, (one) => one)].map(([what, same]) => [what, same.length]).toSorted());
  };
  const wrong = runs.flatMap(({ title, shape, steps, name, nth }) => {
    const effects = counted(
      done.map(({ subject }) => subject),
      name,
    );
    for (const what of shape.atLeastOnce ?? []) if ((effects[what] ?? 0) > 1) effects[what] = 1;
    const seen = {
      status: statuses[nth],
      effects,
      rows: counted(
        written.map((row) => row.name),
        name,
      ),
    };
    const one = (all: readonly string[]) => Object.fromEntries(all.map((what) => [what, 1] as const).toSorted());
    const right = {
      status: shape.ends ?? "complete",
      effects: one([...shape.once, ...(shape.atLeastOnce ?? [])]),
      rows: one([...shape.rows, ...(shape.ends ? [] : ["end"])]),
    };
    return JSON.stringify(seen) === JSON.stringify(right) ? [] : [{ title, steps, seen, right }];
  });
  const failing = runs.filter(({ shape }) => shape.ends === "errored").length;
  task.meta.said = `two deployments: ${RUNS} runs of ${kinds.length} shapes; ${JSON.stringify({ first, second })}; ${done.length} effects, ${asked.length} asked for, ${written.length} rows; ${wrong.length} wrong; ${doubts.size} unknown outcomes of interrupted once effects; errored ${await timesErrored(ids)} of ${failing} runs with a failing step`;
  console.info(task.meta.said);
  expect(wrong).toEqual([]);
  expect(await timesErrored(ids)).toBe(failing);
  expect([first.runs, second.runs]).toEqual([RUNS, RUNS]);
  for (const { name } of runs) labs.delete(name);
  resetPrefixes.delete(prefix);
});

async function keeperRounds(isDone: () => boolean): Promise<void> {
  await until(
    async () => (isDone() ? undefined : keeperRound()),
    () => isDone(),
    300_000,
  );
}
