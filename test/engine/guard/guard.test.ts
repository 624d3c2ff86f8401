import { env } from "cloudflare:workers";
import { defineStep, type EffectCall } from "millrace";
import { instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { attemptEffect } from "../../../packages/millrace/src/guard/effect.ts";
import { recorderOf } from "../../../packages/millrace/src/recorder/client.ts";
import { Replay } from "../../../packages/millrace/src/replay/replay.ts";
import type { Attempt } from "../../../packages/millrace/src/store/inbox/entry.ts";
import {
  behave,
  dieAt,
  envelopeOf,
  expireLeases,
  fresh,
  happened,
  keeperRound,
  operator,
  pauseAt,
  probeEnv,
  probeOutput,
  reaches,
  restarted,
  rows,
  start,
  statusOf,
  until,
} from "../harness.ts";
import { restartLab, runLab } from "../lab.ts";
import { entry } from "./entry.ts";

describe("Guarded effects", () => {
  it("W05 a recorded effect of class natural is not repeated by the next attempt, although its class allows a repeat", async () => {
    const name = fresh();
    const { died } = dieAt("W05 recorded, step result lost", name);
    const { instanceId } = await start(name, [{ do: "natural", name: "act" }]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(died()).toBe(true);
    expect(await happened(`${name}/act`)).toHaveLength(1);
  });

  it("W06 a process that resumes after its claim was taken over does not record its outcome: the effect happens once", async () => {
    const name = fresh();
    const paused = pauseAt("W06 about to record", name);
    const { instanceId } = await start(name, [{ do: "lookup", name: "act" }]);
    await until(async () => paused.reached(), Boolean);
    await env.DB.prepare(
      "UPDATE millrace_inbox SET epoch = epoch + 1, token = 'another', lease_until = 0, repeats = 1 WHERE instance_id = ?1",
    )
      .bind(instanceId)
      .run();
    paused.release();
    expect(await reaches(instanceId, "complete")).toBe("complete");
    const effects = await happened(`${name}/act`);
    expect(effects).toHaveLength(1);
    expect(await entry(instanceId)).toMatchObject([{ state: "done", epoch: 3, output: JSON.stringify(effects[0]?.id) }]);
  });

  it("W07 of two processes that execute one effect key, only one claims it", async () => {
    const key = { instanceId: crypto.randomUUID().replaceAll("-", ""), step: "act", item: "", generation: 1 };
    const attempt = (token: string): Attempt => ({
      key,
      position: 0,
      after: null,
      caught: null,
      replay: "",
      readAt: null,
      class: "lookup",
      token,
      epoch: 1,
      saysItRuns: false,
    });
    const answers = await Promise.all(
      ["a", "b", "c"].map((token) => recorderOf(probeEnv, key.instanceId).claim(attempt(token), 10_000, null)),
    );
    expect(answers.filter((answer) => answer.mine)).toHaveLength(1);
    expect(answers.every((answer) => answer.entry?.epoch === 1)).toBe(true);
  });

  it("W08 an effect that is slower than its lease extends the lease, so that no other process claims it", async () => {
    const name = fresh();
    await behave({ subject: `${name}/act`, mode: "slow", delayMs: 6000, times: 1 });
    const { instanceId } = await start(name, [{ do: "lookup", name: "act", timeoutMs: 20_000 }]);
    await until(
      () => entry(instanceId),
      (found) => found.length > 0,
    );
    await expireLeases(instanceId);
    const extended = () => rows<{ lease_until: number }>("SELECT lease_until FROM millrace_inbox WHERE instance_id = ?1", instanceId);
    expect((await until(extended, ([row]) => (row?.lease_until ?? 0) > Date.now(), 8000))[0]?.lease_until).toBeGreaterThan(Date.now());
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(await happened(`${name}/act`)).toHaveLength(1);
    expect(await entry(instanceId)).toMatchObject([{ state: "done", epoch: 1 }]);
  });

  it("W10 W22 the retry of a timed-out attempt that still runs backs off while the upstream reports the key as in progress", async () => {
    const name = fresh();
    await behave({ subject: `${name}/act`, mode: "slow", delayMs: 800, times: 1 });
    const { instanceId } = await start(name, [{ do: "keyed", name: "act", timeoutMs: 200, retries: 100 }]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    const effects = await happened(`${name}/act`);
    expect(effects).toHaveLength(1);
    expect(await entry(instanceId)).toMatchObject([{ output: JSON.stringify(effects[0]?.id) }]);
  });

  it("W22 a lookup effect that the upstream is still processing is queried before a repeat, and happens once", async () => {
    const name = fresh();
    await behave({ subject: `${name}/act`, mode: "busy", times: 1 });
    const { instanceId } = await start(name, [{ do: "lookup", name: "act" }]);
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    const effects = await happened(`${name}/act`);
    expect(effects).toHaveLength(1);
    expect(await entry(instanceId)).toMatchObject([{ state: "done", epoch: 2, output: JSON.stringify(effects[0]?.id) }]);
  });

  it("an effect of an attempt that died shortly after the start of its run is queried before the next attempt acts", async () => {
    const name = fresh();
    dieAt("A03 accept committed, not enqueued");
    await start(name, []).catch(() => undefined);
    const [row] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", name);
    const id = row?.id ?? "";
    const envelope = await envelopeOf(id);
    const put = defineStep({
      effect: "natural",
      run: async ({ key }: EffectCall<null>) => {
        const answer = await fetch(`${probeEnv.UPSTREAM_URL}/natural/${encodeURIComponent(name)}`, {
          method: "PUT",
          headers: { "idempotency-key": key },
        });
        return ((await answer.json()) as { id: string }).id;
      },
    });
    // Each process has its own replay; the platform counts the attempts of both.
    const attempt = (number: number) => {
      const replay = new Replay({
        env: probeEnv,
        workflow: "probe",
        queue: "probe-commands",
        instanceId: id,
        envelope,
        createdAt: new Date(),
        undoes: false,
        version: 1,
      });
      return attemptEffect({ replay, step: replay.call("put", ""), definition: put, input: null, writes: () => ({}) }, number);
    };
    const first = await attempt(1);
    // Only the attempt that wrote the app's rows has their cost.
    expect(first).toEqual({ ...(await attempt(2)), appRows: 0 });
    expect(await happened(name)).toHaveLength(1);
  });

  it("W11 an output that is too large for the platform is stored by reference, and its effect is not repeated", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [{ do: "keyed", name: "act", output: 1_500_000 }]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(await happened(`${name}/act`)).toHaveLength(1);
    expect(await probeOutput(instanceId)).toEqual({ outputs: [1_500_000] });
    const [{ output_ref } = { output_ref: "" }] = await rows<{ output_ref: string }>(
      "SELECT output_ref FROM millrace_inbox WHERE instance_id = ?1",
      instanceId,
    );
    expect((await env.PAYLOADS.head(output_ref))?.size).toBe(1_500_002);
  });

  it("W12 a step with a random name is refused when the code is replayed", async () => {
    let acted = 0;
    const act = defineStep({ effect: "once", retries: { limit: 0, delay: 10 }, run: async () => ++acted });
    const { instanceId } = await runLab(async ({ step }) => {
      await step.commit("first", () => ({}));
      await step.effect(`act ${crypto.randomUUID()}` as "act", act, {});
      await step.read("check", () => Promise.reject(new Error("Broken.")), { retries: { limit: 0, delay: 10 } });
    });
    expect(await reaches(instanceId, "errored")).toBe("errored");
    expect(await restartLab(instanceId)).toBe("errored");
    const { steps } = await instances.history(probeEnv, { id: instanceId, workflow: "lab" });
    expect(steps.at(-1)?.attempts[0]?.error?.message).toContain("Step names must be the same in every replay");
    expect(acted).toBe(1);
  });

  it("W12 W15 an effect of a complete run with a random step name is not repeated in any number of replays", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "commit", name: "first" },
      { do: "once", name: "act $RANDOM", subject: `${name}/act` },
    ]);
    await reaches(instanceId, "complete");
    expect(await restarted(instanceId)).toBe("complete");
    expect(await happened(`${name}/act`)).toHaveLength(1);
  });

  it("W13 concurrent calls of one step name need a key for each item; calls without a key are refused", async () => {
    const name = fresh();
    const items = ["a", "b", "c"];
    const { instanceId } = await start(name, [items.map((key) => ({ do: "keyed" as const, name: "act", key }))]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    const effects = await Promise.all(items.map((key) => happened(`${name}/act/${key}`)));
    expect(effects.map((found) => found.length)).toEqual([1, 1, 1]);
    expect(new Set(effects.flat().map((effect) => effect.key)).size).toBe(3);

    const twice = await start(fresh(), [
      [
        { do: "commit", name: "act" },
        { do: "commit", name: "act" },
      ],
    ]);
    expect(await reaches(twice.instanceId, "errored")).toBe("errored");
    expect(await rows("SELECT error->>'code' AS code FROM millrace_instances WHERE id = ?1", twice.instanceId)).toEqual([
      { code: "nondeterministic_steps" },
    ]);
  });

  it("W16 a failed effect that an operator retries has the same generation and key; the outputs of earlier steps are kept", async () => {
    const name = fresh();
    await behave({ subject: `${name}/act`, mode: "refuse", status: 400, times: 2 });
    const { instanceId } = await start(name, [
      { do: "keyed", name: "before" },
      { do: "lookup", name: "act", retries: 1 },
      { do: "commit", name: "after" },
    ]);
    expect(await reaches(instanceId, "errored")).toBe("errored");
    expect(
      await rows("SELECT error->>'step' AS step, error->>'upstream_status' AS status FROM millrace_instances WHERE id = ?1", instanceId),
    ).toEqual([{ step: "act", status: 400 }]);
    expect(await happened(`${name}/act`)).toEqual([]);

    const retried = await instances.act(probeEnv, operator, "retry", instanceId, { reason: "upstream repaired" });
    expect(retried.from).toBe("act");
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(await happened(`${name}/act`)).toHaveLength(1);
    expect(await happened(`${name}/before`)).toHaveLength(1);
    expect(await rows("SELECT DISTINCT generation FROM millrace_inbox WHERE instance_id = ?1", instanceId)).toEqual([{ generation: 1 }]);
    expect(await rows("SELECT verb, result, reason FROM millrace_actions WHERE instance_id = ?1", instanceId)).toEqual([
      { verb: "retry", result: "applied", reason: "upstream repaired" },
    ]);
    await expect(instances.act(probeEnv, operator, "retry", instanceId, { reason: "again" })).rejects.toMatchObject({
      code: "invalid_transition",
    });
  });

  it("the keeper executes an operator's retry when the process died after the retry was accepted", async () => {
    const name = fresh();
    await behave({ subject: `${name}/act`, mode: "refuse", status: 400, times: 1 });
    const { instanceId } = await start(name, [{ do: "keyed", name: "act", retries: 0 }]);
    expect(await reaches(instanceId, "errored")).toBe("errored");
    dieAt("retry committed, not applied");
    await expect(instances.act(probeEnv, operator, "retry", instanceId, { reason: "repaired" })).rejects.toThrow("Died");
    await keeperRound();
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(await happened(`${name}/act`)).toHaveLength(1);
  });

  it("an effect waits for as long as a busy upstream requests at each try, and happens once", async () => {
    const name = fresh();
    await behave({ subject: `${name}/act`, mode: "refuse", status: 429, retryAfter: 1, times: 2 });
    const { instanceId } = await start(name, [{ do: "once", name: "act" }]);
    expect(await reaches(instanceId, "complete", "in_doubt")).toBe("complete");
    const { steps } = await instances.history(probeEnv, { id: instanceId, workflow: "probe" });
    expect(steps[0]?.attempts.map((attempt) => attempt.retry_delay_ms)).toEqual([1000, 1000, null]);
    expect(await happened(`${name}/act`)).toHaveLength(1);
  });

  it("an effect that fails at its last try fails the run; the error has the step, the number of tries and the upstream's status", async () => {
    const name = fresh();
    await behave({ subject: `${name}/act`, mode: "refuse", status: 503, times: 9 });
    const { instanceId } = await start(name, [{ do: "natural", name: "act", retries: 2 }]);
    expect(await reaches(instanceId, "errored")).toBe("errored");
    const [row] = await rows<{ error: string }>("SELECT error FROM millrace_instances WHERE id = ?1", instanceId);
    expect(JSON.parse(row?.error ?? "null")).toMatchObject({ step: "act", code: "unavailable", attempts: 3, upstream_status: 503 });
    expect(await statusOf(instanceId)).toBe("errored");
  });
});
