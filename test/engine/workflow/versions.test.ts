import { defineWorkflow } from "millrace";
import { approvals, instances } from "millrace/operate";
import { afterEach, describe, expect, it } from "vitest";
import * as z from "zod";
import { listWorkflows } from "../../../packages/millrace/src/inspect/workflows.ts";
import { deployed, type LabCall, labs } from "../../probe/lab.ts";
import { mode } from "../../probe/mode.ts";
import { replaysUnderWay, resetEngines, resetPrefixes } from "../../probe/strikes.ts";
import { app } from "../../probe/worker.ts";
import { deliver, dieAt, fresh, keeperRound, operator, probeEnv, reaches, rows, until } from "../harness.ts";
import { platformOf, platformReaches, runLab } from "../lab.ts";
import { ended, retry, undo } from "../operate/operating.ts";
import { hear, say } from "../signals/waiting.ts";
import { afterRounds, WORDS } from "./struck.ts";

const SOON = { patienceMs: 20_000 };

type Code = (call: LabCall) => Promise<unknown>;

afterEach(() => {
  deploy(1);
  mode.steps = "platform";
  resetPrefixes.clear();
});

// The workflow of another catalog in the same isolate has the same name, and does not replace the versions of `lab`.
defineWorkflow({ name: "lab", input: z.object({}), run: async () => null });

/** Replaces the versions that the deployed code has. */
function deploy(version: number, previous: Record<number, Code> = {}): void {
  Object.assign(deployed, { version, previous });
}

const versionOf = async (id: string) =>
  (await rows<{ version: number }>("SELECT version FROM millrace_instances WHERE id = ?1", id))[0]?.version;

const stepsOf = async (id: string) =>
  (await rows<{ step: string }>("SELECT step FROM millrace_inbox WHERE instance_id = ?1 AND state = 'done' ORDER BY position", id)).map(
    ({ step }) => step,
  );

/** Code that records a step before and a step after its wait. Its steps have the names of its version. */
const codeOf =
  (version: number, subject: string): Code =>
  async ({ step }) => {
    await step.commit(`before ${version}` as "before", () => ({}));
    await hear(step, `wait ${version}`, subject);
    await step.commit(`after ${version}` as "after", () => ({}));
    return version;
  };

/** Starts a run of the deployed version, and waits until the run waits for its event. */
async function waitingRun(code: (name: string) => Code) {
  const name = `${fresh("version")}/`;
  resetPrefixes.add(name);
  const { instanceId: id } = await runLab(code(name), { name });
  await reaches(id, "waiting");
  return { id, name, go: () => deliver("probe-events", [say(name, "go")]) };
}

/** Ends the engine of a run, as a deployment does. The keeper then starts a replay with the deployed code. */
async function redeploy(name: string): Promise<void> {
  resetEngines(name, WORDS["a deployment"] as () => Error, () => "lives");
  await until(
    () => keeperRound().then(() => replaysUnderWay(name).size),
    (count) => count === 1,
    20_000,
  );
}

describe.each(["platform", "inline"] as const)("with %s steps", (steps) => {
  it("an instance ends as the version with which it began, and a new instance begins with the new version", async () => {
    mode.steps = steps;
    const old = await waitingRun((name) => codeOf(1, name));
    labs.set(old.name, codeOf(2, old.name));
    deploy(2, { 1: codeOf(1, old.name) });
    const young = await waitingRun((name) => codeOf(2, name));
    await redeploy(old.name);
    await Promise.all([old.go(), young.go()]);
    expect(await afterRounds([old.id, young.id], SOON)).toEqual(["complete", "complete"]);
    expect(await stepsOf(old.id)).toEqual(["before 1", "after 1"]);
    expect(await stepsOf(young.id)).toEqual(["before 2", "after 2"]);
    expect([await versionOf(old.id), await versionOf(young.id)]).toEqual([1, 2]);
    const listed = async (version: number) =>
      (await instances.list(probeEnv, operator, { workflow: "lab", version, limit: 5 })).items.map(({ id }) => id);
    expect(await listed(2)).toContain(young.id);
    expect(await listed(2)).not.toContain(old.id);
  });

  it("an instance without its version after a rollback makes no step, shows the reason, and continues when the version is back", async () => {
    mode.steps = steps;
    deploy(2);
    const { id, name, go } = await waitingRun((name) => codeOf(2, name));
    deploy(1);
    labs.set(name, codeOf(1, name));
    // A dead engine is replaced, and its new replay finds the version missing. A living engine ends errored, and the keeper finds it missing.
    resetEngines(name, WORDS["a deployment"] as () => Error, () => (steps === "inline" ? "dies" : "lives"));
    await until(
      () => keeperRound().then(() => platformOf(id)),
      ({ status }) => status === "errored",
      20_000,
    );
    await go();
    for (let round = 0; round < 3; round++) await keeperRound();
    expect(await stepsOf(id)).toEqual(["before 2"]);
    expect(await instances.get(probeEnv, operator, id)).toMatchObject({
      status: "waiting",
      version: 2,
      error: { code: "config_invalid", message: expect.stringContaining('version 2 of "lab"') },
    });

    const versions = async () => (await listWorkflows(probeEnv, app, operator)).find(({ name }) => name === "lab")?.versions;
    expect(await versions()).toContainEqual({ version: 2, deployed: false, open: expect.any(Number) });

    deploy(3, { 2: codeOf(2, name) });
    expect(await versions()).toContainEqual({ version: 2, deployed: true, open: expect.any(Number) });
    expect(await afterRounds([id], SOON)).toEqual(["complete"]);
    expect(await stepsOf(id)).toEqual(["before 2", "after 2"]);
    expect((await instances.get(probeEnv, operator, id)).error).toBeNull();
  });
});

it("an approval that is decided while the version is missing reaches the instance when the version is back", async () => {
  const asks: Code = async ({ step }) => step.approve("agree", { question: "Is it right?" });
  deploy(2);
  const { id, name } = await waitingRun(() => asks);
  deploy(1);
  labs.set(name, async () => undefined);
  resetEngines(name, WORDS["a deployment"] as () => Error, () => "lives");
  await until(
    () => keeperRound().then(() => platformOf(id)),
    ({ status }) => status === "errored",
    20_000,
  );
  const [{ id: question } = { id: "" }] = await rows<{ id: string }>("SELECT id FROM millrace_approvals WHERE instance_id = ?1", id);
  await approvals.decide(probeEnv, operator, question, "approve", "yes");
  for (let round = 0; round < 3; round++) await keeperRound();
  deploy(3, { 2: asks });
  expect(await afterRounds([id], SOON)).toEqual(["complete"]);
});

it("an instance that was accepted before a deployment and starts after it runs the new version", async () => {
  const name = fresh("version");
  dieAt("A03 accept committed, not enqueued");
  await runLab(async () => 1, { name }).catch(() => undefined);
  deploy(2, { 1: async () => 1 });
  labs.set(name, async ({ step }) => step.commit("new", () => ({})));
  const [{ id } = { id: "" }] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", name);
  expect(await versionOf(id)).toBe(1);
  expect(await afterRounds([id], SOON)).toEqual(["complete"]);
  expect([await stepsOf(id), await versionOf(id)]).toEqual([["new"], 2]);
});

it("a retry, a restart and an undo after a deployment run the function of the instance's version", async () => {
  const name = fresh("version");
  const log: string[] = [];
  let broken = true;
  const old: Code = async ({ step }) => {
    await step.commit("first", () => ({}), { undo: () => ({ emit: log.push("undone") > 0 ? [] : [] }) });
    await step.commit("second", () => (broken ? Promise.reject(new Error("broken")) : {}), { retries: { limit: 0, delay: 10 } });
    log.push("old");
  };
  const { instanceId: id } = await runLab(old, { name });
  expect(await ended(id)).toBe("errored");
  deploy(2, { 1: old });
  labs.set(name, async () => log.push("new"));
  broken = false;
  await platformReaches(id, "errored");
  await retry(id);
  expect(await reaches(id, "complete")).toBe("complete");
  await undo(id);
  expect(await reaches(id, "terminated")).toBe("terminated");
  await retry(id);
  expect(await reaches(id, "complete")).toBe("complete");
  expect(log).not.toContain("new");
  expect(log.filter((one) => one === "undone")).toHaveLength(1);
});
