import { defineStep, type EffectCall, ids, type Steps, sql, upstreamRefused } from "millrace";
import { effects, instances } from "millrace/operate";
import type { CrashPoint } from "millrace/testing";
import { describe, expect, it } from "vitest";
import { mode } from "../../probe/mode.ts";
import { expireLeases, fresh, operator, probeEnv, reaches, rows, statusOf, until } from "../harness.ts";
import { errorOf, LAB, outputOf, runLab } from "../lab.ts";

const CLASSES = ["read", "commit", "keyed", "natural", "lookup", "once"] as const;
type Class = (typeof CLASSES)[number];

/** An upstream that counts its effects: a key once, and each request without a key. */
function upstream() {
  const effects: string[] = [];
  const count = { asked: 0 };
  const send = (key: string | null) => {
    if (key === null || !effects.includes(key)) effects.push(key ?? `effect ${effects.length + 1}`);
    return effects.length;
  };
  return { effects, count, send };
}
type Upstream = ReturnType<typeof upstream>;

/** Several runs die at once here, and `dieAt` supports only one. */
const deaths = new Map<string, { at: CrashPoint; died: boolean }>();
const dieEach: typeof globalThis.millraceCrashPoint = (at, whose) => {
  const death = deaths.get(whose ?? "");
  if (!death || death.died || death.at !== at) return;
  death.died = true;
  throw Object.assign(new Error(`Died at ${at}.`), { name: "SimulatedDeath" });
};

/** The platform makes the second attempt after one hour, so a test can deploy before. */
const PATIENT = { retries: { limit: 3, delay: "1 hour" } } as const;

/** Returns the step "act" of an effect class. `answers` runs after the effect, and may throw. */
function act(step: Steps, name: string, kind: Class, { send, effects, count }: Upstream, answers: () => void): Promise<unknown> {
  if (kind === "read") return step.read("act", async () => answers(), PATIENT);
  const row = sql`INSERT INTO probe_rows (id, kind, name) VALUES (${crypto.randomUUID()}, 'commit', ${name})`;
  const commit = () => {
    answers();
    return { statements: [row], output: "committed" };
  };
  if (kind === "commit") return step.commit("act", commit, PATIENT);
  const run = async ({ key }: EffectCall<null>) => {
    const nth = send(kind === "keyed" ? key : null);
    answers();
    return `sent ${nth}`;
  };
  const lookup = async () => {
    count.asked++;
    return effects.length > 0 ? "found" : undefined;
  };
  return step.effect("act", defineStep<null, string>({ effect: kind, ...PATIENT, run, lookup } as never), null);
}

/** Runs "act" of one class until its attempt has died or thrown. `deploy` changes the class and restarts the run on the platform. */
async function deployed(from: Class, to: Class, leave: { dies?: CrashPoint; answers?: () => void }) {
  const up = upstream();
  const name = fresh("lab");
  let now = from;
  const death = leave.dies && from !== "read" ? { at: leave.dies, died: false } : undefined;
  if (death) deaths.set(ids.instance("acme", "lab", name), death);
  let reached = 0;
  const answers = () => {
    reached++;
    if (now !== from || reached > 1) return;
    if (from === "read") throw new Error("The answer was lost.");
    leave.answers?.();
  };
  const { instanceId } = await runLab(
    async ({ step }) => {
      const output = await act(step, name, now, up, answers);
      await step.commit("behind", () => ({}));
      return output;
    },
    { name },
  );
  await until(async () => death?.died ?? reached > 0, Boolean);
  const entries = () =>
    rows<{ state: string; class: string }>("SELECT state, class FROM millrace_inbox WHERE instance_id = ?1", instanceId);
  // The error of an attempt is recorded shortly after its end.
  if (leave.answers && (from === "lookup" || from === "once"))
    await until(entries, ([one]) => one !== undefined && one.state !== "claimed");
  const deploy = async () => {
    now = to;
    await (await LAB.get(instanceId)).restart();
  };
  /** The status or error code of the instance, the number of effects, and the number of lookups. */
  const outcome = async (...statuses: string[]) => {
    const status = await reaches(instanceId, "complete", "errored", ...statuses);
    const ours = await rows("SELECT 1 FROM probe_rows WHERE name = ?1 AND kind = 'commit'", name);
    const code = (await errorOf(instanceId))?.code;
    return `${code ?? status} ${up.effects.length + ours.length}/${up.count.asked}`;
  };
  return { instanceId, name, up, entries, deploy, outcome, reached: () => reached };
}

/** Tries each pair of classes. Returns the outcomes by the class before the deployment and the class after it. */
async function table(befores: readonly Class[], cell: (from: Class, to: Class) => Promise<unknown>): Promise<Record<string, unknown>> {
  const lines = await Promise.all(
    befores.map(
      async (from) => [from, Object.fromEntries(await Promise.all(CLASSES.map(async (to) => [to, await cell(from, to)])))] as const,
    ),
  );
  return Object.fromEntries(lines);
}

const line = (...[read, commit, keyed, natural, lookup, once]: string[]) => ({ read, commit, keyed, natural, lookup, once });
const DOUBT = "in_doubt 1/0";
const [NONE, ONE, TWO] = ["complete 0/0", "complete 1/0", "complete 2/0"];

/** The step's output if it runs after the deployment. */
const anew = (to: Class) => (to === "read" ? null : to === "commit" ? "committed" : "sent 2");

describe.each(["platform", "inline"] as const)("Class changes (%s)", (steps) => {
  const inMode = async <T>(work: () => Promise<T>): Promise<T> => {
    mode.steps = steps;
    globalThis.millraceCrashPoint = dieEach;
    try {
      return await work();
    } finally {
      mode.steps = "platform";
      globalThis.millraceCrashPoint = undefined;
    }
  };

  it("W02 an interrupted effect is in doubt after a deployment changed its class, if the old or the new class forbids a repeat", () =>
    inMode(async () => {
      const found = await table(CLASSES, async (from, to) => {
        const run = await deployed(from, to, { dies: "W03 effect done, not recorded" });
        await expireLeases(run.instanceId);
        await run.deploy();
        return run.outcome("in_doubt");
      });
      expect(found).toEqual({
        // Reads and commits had no effect.
        read: line(NONE, ONE, ONE, ONE, ONE, ONE),
        commit: line(NONE, ONE, ONE, ONE, ONE, ONE),
        // These classes write nothing before the effect (docs/limits.md).
        keyed: line(ONE, TWO, ONE, TWO, TWO, TWO),
        natural: line(ONE, TWO, TWO, TWO, TWO, TWO),
        lookup: line(DOUBT, DOUBT, DOUBT, DOUBT, "complete 1/1", DOUBT),
        once: line(DOUBT, DOUBT, DOUBT, DOUBT, DOUBT, DOUBT),
      });
    }));

  it("W02 after a deployment changed the class of an effect, the step waits for the running attempt and returns its output", () =>
    inMode(async () => {
      const found = await table(["lookup", "once"], async (from, to) => {
        const run = await deployed(from, to, { dies: "W03 effect done, not recorded" });
        await run.deploy();
        await scheduler.wait(300);
        const before = [await statusOf(run.instanceId), ...(await run.entries()).map(({ state }) => state), run.up.effects.length];
        await rows(
          "UPDATE millrace_inbox SET state = 'done', output = '\"old\"', lease_until = NULL WHERE instance_id = ?1",
          run.instanceId,
        );
        const outcome = await run.outcome();
        return to === "read" ? outcome : [...before, outcome, await outputOf(run.instanceId)];
      });
      const waited = ["running", "claimed", 1, ONE, "old"];
      const each = { commit: waited, keyed: waited, natural: waited, lookup: waited, once: waited };
      expect(found).toEqual({ lookup: { read: ONE, ...each }, once: { read: ONE, ...each } });
    }));

  it("W05 a recorded outcome is kept after a deployment changed the class of its step", () =>
    inMode(async () => {
      const recorded = CLASSES.filter((one) => one !== "read");
      const found = await table(recorded, async (from, to) => {
        const run = await deployed(from, to, { dies: "W05 recorded, step result lost" });
        await run.deploy();
        return run.outcome("in_doubt");
      });
      const each = line(ONE, ONE, ONE, ONE, ONE, ONE);
      expect(found).toEqual(Object.fromEntries(recorded.map((from) => [from, each])));
    }));

  it("W16 a refused effect is repeated once after a deployment changed its class", () =>
    inMode(async () => {
      const found = await table(["lookup", "once"], async (from, to) => {
        const answers = () => {
          throw upstreamRefused("not now");
        };
        const run = await deployed(from, to, { answers });
        // The upstream has refused the effect.
        run.up.effects.length = 0;
        await run.deploy();
        return run.outcome("in_doubt");
      });
      const each = line(NONE, ONE, ONE, ONE, ONE, ONE);
      expect(found).toEqual({ lookup: each, once: each });
    }));

  it.each([
    // The rows of a confirmed effect are counted, as the rows of a commit.
    { verb: "confirm" as const, counts: line(ONE, TWO, ONE, ONE, ONE, ONE), output: () => "as they say" },
    { verb: "reject" as const, counts: line(ONE, TWO, TWO, TWO, TWO, TWO), output: anew },
    { verb: "retry_anyway" as const, counts: line(ONE, TWO, TWO, TWO, TWO, TWO), output: anew },
  ])("W16 an effect in doubt with a changed class stays in doubt until an operator answers with $verb", ({ verb, counts, output }) =>
    inMode(async () => {
      const found = await table(["once"], async (from, to) => {
        const answers = () => {
          throw new Error("The answer was lost.");
        };
        const run = await deployed(from, to, { answers });
        await run.deploy();
        const before = await run.outcome("in_doubt");
        const [effect] = await instances.effects(probeEnv, operator, run.instanceId);
        await effects.resolve(
          probeEnv,
          operator,
          effect?.key ?? "",
          verb === "confirm" ? { verb, output: "as they say" } : { verb },
          "looked",
        );
        await until(
          () => statusOf(run.instanceId),
          (status) => status !== "in_doubt",
        );
        return [before, await run.outcome(), await outputOf(run.instanceId)];
      });
      const answered = Object.fromEntries(CLASSES.map((to) => [to, [DOUBT, counts[to], output(to)]]));
      expect(found).toEqual({ once: answered });
    }),
  );
});
