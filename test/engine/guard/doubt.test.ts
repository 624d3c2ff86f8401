import { env } from "cloudflare:workers";
import { defineStep, MillraceError, notRetryable } from "millrace";
import { effects as engineEffects, instances } from "millrace/operate";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { withAuditOpen } from "../../opened-audit.ts";
import {
  behave,
  dieAt,
  expireLeases,
  fresh,
  happened,
  keeperRound,
  operator,
  probeEnv,
  probeOutput,
  reaches,
  rows,
  start,
  until,
} from "../harness.ts";
import { outputOf as answerOf, held, LAB, parkedBesideFailure, runLab } from "../lab.ts";
import { failed, ONCE, resolve, stateOf } from "../operate/operating.ts";
import { doubtful, followUps } from "./doubtful.ts";

describe("Unknown outcomes", () => {
  it("W02 a once effect with a lost reply waits for an operator, who sees the request, and is never repeated", async () => {
    const { name, instanceId, effect } = await doubtful();
    expect(await happened(`${name}/mail`)).toHaveLength(1);
    expect(effect).toMatchObject({ class: "once", step: "mail", input: JSON.stringify({ subject: `${name}/mail` }) });
    const { items } = await engineEffects.list(probeEnv, operator, { state: "in_doubt", limit: 200 });
    expect(items.map((one) => one.instance_id)).toContain(instanceId);
  });

  it("W02 a once effect with a lost reply and no retries waits for an operator and shows its error; its instance is not errored", async () => {
    const name = fresh();
    await behave({ subject: `${name}/mail`, mode: "drop", times: 1 });
    const { instanceId } = await start(name, [{ do: "once", name: "mail", retries: 0 }]);
    expect(await reaches(instanceId, "in_doubt", "complete", "errored")).toBe("in_doubt");
    const [effect] = await instances.effects(probeEnv, operator, instanceId);
    expect(effect).toMatchObject({ state: "in_doubt", epoch: 1, error: { step: "mail", attempts: 1 } });
    expect(await happened(`${name}/mail`)).toHaveLength(1);
  });

  it("W22 a once effect waits for an operator when the upstream reports that it is still processing the request", async () => {
    const name = fresh();
    await behave({ subject: `${name}/mail`, mode: "busy", times: 1 });
    const { instanceId } = await start(name, [{ do: "once", name: "mail" }]);
    expect(await reaches(instanceId, "in_doubt", "complete", "errored")).toBe("in_doubt");
    const [effect] = await instances.effects(probeEnv, operator, instanceId);
    expect(effect?.error).toMatchObject({ code: "in_progress", upstream_status: 409 });
    expect(await happened(`${name}/mail`)).toHaveLength(1);
  });

  it("W03 a once effect with an unrecorded reply waits for an operator once its claim has expired", async () => {
    const name = fresh();
    const { died } = dieAt("W03 effect done, not recorded", name);
    const { instanceId } = await start(name, [{ do: "once", name: "mail" }]);
    await until(async () => died(), Boolean);
    await expireLeases(instanceId);
    expect(await reaches(instanceId, "in_doubt", "complete", "errored")).toBe("in_doubt");
    expect(await happened(`${name}/mail`)).toHaveLength(1);
  });

  it("W10 a once effect that timed out while it still ran waits for an operator, and has happened once", async () => {
    const name = fresh();
    await behave({ subject: `${name}/mail`, mode: "slow", delayMs: 400, times: 1 });
    const { instanceId } = await start(name, [{ do: "once", name: "mail", timeoutMs: 100 }]);
    expect(await reaches(instanceId, "in_doubt", "complete", "errored")).toBe("in_doubt");
    expect(
      await until(
        () => happened(`${name}/mail`),
        (found) => found.length > 0,
      ),
    ).toHaveLength(1);
  });

  it("W17 a run continues with the output that an operator confirms; nothing is sent again, and the operator's name is recorded", async () => {
    const { name, instanceId, key } = await doubtful();
    await engineEffects.resolve(probeEnv, operator, key, { verb: "confirm", output: "mail-77" }, "seen in the sent folder");
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(await probeOutput(instanceId)).toEqual({ outputs: ["mail-77", "committed"] });
    expect(await happened(`${name}/mail`)).toHaveLength(1);
    expect(
      await until(
        () => followUps(name),
        (found) => found.length === 2,
      ),
    ).toHaveLength(2);
    expect(await rows("SELECT actor, verb, reason, result FROM millrace_actions WHERE instance_id = ?1", instanceId)).toEqual([
      { actor: "tess", verb: "confirm", reason: "seen in the sent folder", result: "applied" },
    ]);
  });

  it("W17 a once effect that an operator rejected is executed in the same generation, because it did not happen", async () => {
    const name = fresh();
    const { died } = dieAt("W01 claimed, effect not started", name);
    const { instanceId } = await start(name, [{ do: "once", name: "mail" }]);
    await until(async () => died(), Boolean);
    await expireLeases(instanceId);
    expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
    const [effect] = await instances.effects(probeEnv, operator, instanceId);
    await engineEffects.resolve(probeEnv, operator, effect?.key ?? "", { verb: "reject" }, "not in the sent folder");
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(await happened(`${name}/mail`)).toHaveLength(1);
    expect(await rows("SELECT generation, state FROM millrace_inbox WHERE instance_id = ?1", instanceId)).toEqual([
      { generation: 1, state: "done" },
    ]);
  });

  it("W17 a once effect that an operator retries anyway is executed a second time, in the next generation", async () => {
    const { name, instanceId, key } = await doubtful();
    await engineEffects.resolve(probeEnv, operator, key, { verb: "retry_anyway" }, "a second mail is acceptable");
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    const effects = await happened(`${name}/mail`);
    expect(effects).toHaveLength(2);
    expect(new Set(effects.map((one) => one.key)).size).toBe(2);
    expect(
      await rows("SELECT generation, state FROM millrace_inbox WHERE instance_id = ?1 AND step = 'mail' ORDER BY generation", instanceId),
    ).toEqual([
      { generation: 1, state: "superseded" },
      { generation: 2, state: "done" },
    ]);
  });

  it.each([
    ["padded", (key: string) => `${key}=`],
    [
      "of JSON with spaces",
      (key: string) => Buffer.from(Buffer.from(key, "base64url").toString().replaceAll(",", ", ")).toString("base64"),
    ],
  ])("W17 an unknown outcome can be resolved by its key in another spelling (%s)", async (_, spelled) => {
    const { instanceId, key } = await doubtful();
    expect(spelled(key)).not.toBe(key);
    await engineEffects.resolve(probeEnv, operator, spelled(key), { verb: "confirm", output: { id: "mail-1" } }, "it arrived");
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(await rows("SELECT target FROM millrace_actions WHERE instance_id = ?1", instanceId)).toEqual([{ target: key }]);
  });

  it("an unknown outcome is resolved once: a second answer is refused and audited", async () => {
    const { instanceId, key } = await doubtful();
    const answers = await Promise.allSettled(
      ["a", "b"].map((output) => engineEffects.resolve(probeEnv, operator, key, { verb: "confirm", output }, "double click")),
    );
    expect(answers.filter((answer) => answer.status === "fulfilled")).toHaveLength(1);
    const refused = answers.find((answer) => answer.status === "rejected");
    expect(refused?.reason).toBeInstanceOf(MillraceError);
    expect(refused?.reason.code).toBe("invalid_transition");
    expect(await rows("SELECT result FROM millrace_actions WHERE instance_id = ?1 ORDER BY result", instanceId)).toEqual([
      { result: "applied" },
      { result: "no_change" },
    ]);
  });

  it("an unknown outcome belongs to its tenant: no other tenant can see or resolve it", async () => {
    const { key } = await doubtful();
    await expect(
      engineEffects.resolve(probeEnv, { tenantId: "globex", actor: "gus" }, key, { verb: "reject" }, "mine?"),
    ).rejects.toMatchObject({
      code: "effect_not_found",
    });
  });

  it("the keeper resumes a run whose answered unknown outcome has lost its wake-up call", async () => {
    const { instanceId, key } = await doubtful();
    dieAt("doubt resolved, instance not notified");
    await expect(engineEffects.resolve(probeEnv, operator, key, { verb: "confirm", output: "mail-1" }, "seen")).rejects.toThrow("Died");
    await env.DB.prepare("UPDATE millrace_instances SET check_at = 0 WHERE id = ?1").bind(instanceId).run();
    await keeperRound();
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
  });
});

describe("Parallel branches", () => {
  const post = defineStep({
    effect: "once",
    async run({ input: { isLost } }: { input: { isLost: () => boolean } }): Promise<string> {
      if (isLost()) throw new Error("The connection was lost.");
      return "sent";
    },
  });

  /** A run with two branches: the post is in doubt because its first reply was lost, and the other branch has failed. */
  async function doubtBesideFailure() {
    let posts = 0;
    const run = await parkedBesideFailure(
      (step) => step.effect("post", post, { isLost: () => ++posts === 1 }),
      async (id) => (await rows("SELECT 1 FROM millrace_inbox WHERE instance_id = ?1 AND state = 'in_doubt'", id)).length > 0,
    );
    const [effect] = await instances.effects(probeEnv, operator, run.instanceId);
    return { ...run, key: effect?.key ?? "", posts: () => posts };
  }

  it.each([
    { resolution: { verb: "confirm", output: "seen" } as const, answer: "seen", posts: 1 },
    { resolution: { verb: "reject" } as const, answer: "sent", posts: 2 },
    { resolution: { verb: "retry_anyway" } as const, answer: "sent", posts: 2 },
  ])("W17 the retry of an errored run applies the answer $resolution.verb to an unknown outcome in another branch", async (expected) => {
    const { instanceId, key, mend, posts } = await doubtBesideFailure();
    await engineEffects.resolve(probeEnv, operator, key, expected.resolution, "known");
    mend();
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "mended" });
    expect(await answerOf(instanceId)).toBe(expected.answer);
    expect(posts()).toBe(expected.posts);
  });

  it("W17 a run has the status in_doubt when its failed branch is retried while another branch has an unknown outcome", async () => {
    const { instanceId, key, mend } = await doubtBesideFailure();
    mend();
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "mended" });
    const status = "SELECT status FROM millrace_instances WHERE id = ?1";
    expect(await rows(status, instanceId)).toEqual([{ status: "in_doubt" }]);
    await engineEffects.resolve(probeEnv, operator, key, { verb: "confirm", output: "seen" }, "known");
    expect(await answerOf(instanceId)).toBe("seen");
  });

  it("W17 a run with an unknown outcome has the status in_doubt after a platform restart, also after writes of another branch", async () => {
    const isBroken = { book: true };
    const { instanceId } = await runLab(({ step, instanceId: id }) => {
      const book = async () => {
        await step.read("wait for post", () => held(async () => (await stateOf(id, "post")) === "in_doubt"));
        await step.commit("book", () => (isBroken.book ? Promise.reject(notRetryable("Broken.")) : {}), ONCE);
      };
      return Promise.all([step.effect("post", post, { isLost: () => true }), book()]).then(([posted]) => posted);
    });
    await failed(instanceId);
    isBroken.book = false;
    await (await LAB.get(instanceId)).restart();
    await until(
      () => stateOf(instanceId, "book"),
      (state) => state === "done",
    );
    expect(await rows("SELECT status FROM millrace_instances WHERE id = ?1", instanceId)).toEqual([{ status: "in_doubt" }]);
    await resolve(instanceId, "post", { verb: "confirm", output: "seen" });
    expect(await answerOf(instanceId)).toBe("seen");
  });
});

it("W17 an answer to an unknown outcome that could not be delivered for a day is kept, and delivered when the platform is available", async () => {
  const { instanceId, key } = await doubtful();
  const platform = Object.getPrototypeOf(probeEnv.PROBE) as Workflow;
  const away = vi.spyOn(platform, "get").mockRejectedValue(new Error("Network connection lost."));
  onTestFinished(() => away.mockRestore());
  await engineEffects.resolve(probeEnv, operator, key, { verb: "confirm", output: "mail-78" }, "seen");
  await withAuditOpen("UPDATE millrace_actions SET at = at - 90000000 WHERE instance_id = ?1", instanceId);
  await keeperRound();
  const [promise] = await rows<{ result: string; hours: number }>(
    `SELECT result, round((due_at - ?2) / 3600000.0) AS hours FROM millrace_actions WHERE instance_id = ?1 AND applied_at IS NULL`,
    instanceId,
    Date.now(),
  );
  expect(promise).toEqual({ result: "applied", hours: 24 });
  away.mockRestore();
  await keeperRound();
  expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
});
