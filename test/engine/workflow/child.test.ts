import { defineWorkflow, errors, type MillraceError, type Steps } from "millrace";
import { instances } from "millrace/operate";
import { skipPauses } from "millrace/testing";
import { describe, expect, expectTypeOf, it } from "vitest";
import * as z from "zod";
import { lab } from "../../probe/lab.ts";
import { ProbeSignal } from "../../probe/messages.ts";
import { deliver, dieAt, fresh, keeperRound, operator, probeEnv, reaches, rows, statusOf, until } from "../harness.ts";
import { errorOf, LAB, outputOf, platformReaches, refuse, restartLab, runLab } from "../lab.ts";
import { say } from "../signals/waiting.ts";
import { childrenOf, labCode, only, scripted } from "./children.ts";

const act = (name: "retry" | "pause" | "resume", id: string) => instances.act(probeEnv, operator, name, id, { reason: "test" });

describe("A child", () => {
  it("is accepted once under a key of its parent's step, and its result is the result of the step", async () => {
    const child = labCode(async ({ envelope, payload }) => ({ said: payload.note, by: envelope.path, trace: envelope.traceparent }));
    const { instanceId, correlationId } = await runLab(async ({ step, envelope }) => {
      const { trace, ...said } = (await step.child("site", lab, { name: child, note: "hello" })) as { trace: string };
      return { ...said, sameTrace: trace.slice(3, 35) === envelope.traceparent.slice(3, 35) };
    });
    expect(await outputOf(instanceId)).toEqual({ said: "hello", by: ["lab"], sameTrace: true });
    const [row] = await childrenOf(instanceId);
    expect(row).toMatchObject({ parent_step: "site", status: "complete", tenant_id: "acme", correlation_id: correlationId });
    expect(row?.causation_id).toBe(`${instanceId}/child site`);
    expect(await restartLab(instanceId)).toBe("complete");
    expect(await childrenOf(instanceId)).toHaveLength(1);
    await until(
      () => rows("SELECT 1 FROM millrace_waits WHERE instance_id = ?1 AND told_at IS NOT NULL", instanceId),
      (told) => told.length === 1,
    );
  });

  it("has its own key for each item of a Promise.all and of a map", async () => {
    const child = labCode(async ({ payload }) => payload.note.toUpperCase());
    const { instanceId } = await runLab(async ({ step }) => {
      const all = await Promise.all(["a", "b"].map((note) => step.child("site", lab, { name: child, note }, { key: note })));
      const mapped = await step.map(["c", "d"], { key: (note) => note }, (note, each) => each.child("site", lab, { name: child, note }));
      return [...all, ...mapped];
    });
    expect(await outputOf(instanceId)).toEqual(["A", "B", "C", "D"]);
    expect((await childrenOf(instanceId)).map((row) => row.parent_step).toSorted()).toEqual([
      "site [a]",
      "site [b]",
      "site [c]",
      "site [d]",
    ]);
  });

  it("returns a large result by reference, and a missing result as undefined", async () => {
    const large = labCode(async () => ({ text: "x".repeat(40_000) }));
    const nothing = labCode(async () => undefined);
    const { instanceId } = await runLab(async ({ step }) => {
      const { text } = (await step.child("large", lab, { name: large })) as { text: string };
      return [text.length, typeof (await step.child("nothing", lab, { name: nothing }))];
    });
    expect(await outputOf(instanceId)).toEqual([40_000, "undefined"]);
    const ends = await rows<{ envelope: string }>(
      "SELECT s.envelope FROM millrace_waits w JOIN millrace_signals s ON s.id = w.signal_id WHERE w.instance_id = ?1",
      instanceId,
    );
    expect(ends).toHaveLength(2);
    for (const { envelope } of ends) expect(envelope.length).toBeLessThan(1000);
  });

  it("that fails is an error with the child's id, status, code and message, the same on every replay, and is not retried by itself", async () => {
    const child = labCode(async ({ step }) => {
      await step.commit("a", refuse, { retries: { limit: 0, delay: 10 } });
    });
    const seen: unknown[] = [];
    const { instanceId } = await runLab(async ({ step }) => {
      try {
        await step.child("site", lab, { name: child });
      } catch (error) {
        seen.push([errors.codeOf(error), (error as MillraceError).detail.child]);
      }
      await step.commit("after", () => ({}));
    });
    expect(await platformReaches(instanceId, "complete", "errored")).toBe("complete");
    const id = (await only(instanceId)).id;
    const expected = ["child_failed", { id, status: "errored", code: "upstream_refused", message: "no" }];
    expect(seen).toEqual([expected]);
    expect(await restartLab(instanceId)).toBe("complete");
    expect(seen).toEqual([expected, expected]);
    expect(await only(instanceId)).toMatchObject({ run: 1 });
  });

  it("that an operator retries gives its new result to a retry of its parent", async () => {
    const { child, state } = scripted("broken");
    const { instanceId } = await runLab(({ step }) => step.child("site", lab, { name: child }));
    expect(await reaches(instanceId, "errored")).toBe("errored");
    const { id } = await only(instanceId);
    expect(await errorOf(instanceId)).toMatchObject({ code: "child_failed", step: "site" });
    state.now = "fine";
    await act("retry", id);
    expect(await reaches(id, "complete")).toBe("complete");
    await act("retry", instanceId);
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(await outputOf(instanceId)).toBe("repaired");
  });

  it("that an operator retries is awaited by a parent that was retried before the child completed", async () => {
    const { child, state } = scripted("broken");
    const { instanceId } = await runLab(({ step }) => step.child("site", lab, { name: child }));
    expect(await reaches(instanceId, "errored")).toBe("errored");
    const { id } = await only(instanceId);
    state.now = "held";
    await act("retry", id);
    await act("retry", instanceId);
    expect(await reaches(instanceId, "waiting")).toBe("waiting");
    state.now = "fine";
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
  });

  it("that fails and is retried while its parent is paused gives its new result to the parent", async () => {
    const { child, state } = scripted("held");
    const { instanceId } = await runLab(({ step }) => step.child("site", lab, { name: child }));
    expect(await reaches(instanceId, "waiting")).toBe("waiting");
    await act("pause", instanceId);
    const { id } = await only(instanceId);
    state.now = "broken";
    expect(await reaches(id, "errored")).toBe("errored");
    state.now = "fine";
    await act("retry", id);
    expect(await reaches(id, "complete")).toBe("complete");
    await act("resume", instanceId);
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
  });

  it("may end after its parent, which a race has ended", async () => {
    const { child, state } = scripted("held");
    const { instanceId } = await runLab(({ step }) => Promise.race([step.child("site", lab, { name: child }), step.sleep("short", 1000)]));
    expect(await platformReaches(instanceId, "complete", "errored")).toBe("complete");
    state.now = "fine";
    const { id } = await only(instanceId);
    expect(await reaches(id, "complete")).toBe("complete");
    await keeperRound();
    expect(await statusOf(instanceId)).toBe("complete");
  });

  it("does not hold up other branches of its parent, also after a restart of the parent", async () => {
    const { child, state } = scripted("held");
    const heard: string[] = [];
    const { instanceId, name } = await runLab(async ({ step, payload }) => {
      const waited = async () => {
        await step.waitFor("answer", ProbeSignal, { subject: payload.name });
        await step.commit("answered", () => ({}));
        heard.push("answer");
      };
      await Promise.all([step.child("site", lab, { name: child }), waited()]);
    });
    expect(await reaches(instanceId, "waiting")).toBe("waiting");
    await instances.act(probeEnv, operator, "restart", instanceId, { reason: "test" });
    expect(await reaches(instanceId, "waiting")).toBe("waiting");
    await deliver("probe-events", [say(name, "yes")]);
    await until(
      async () => heard.length,
      (count) => count === 1,
    );
    state.now = "fine";
    expect(await platformReaches(instanceId, "complete", "errored")).toBe("complete");
    expect(await childrenOf(instanceId)).toHaveLength(1);
  });

  it("is shown by its parent's wait and step, and shows its parent", async () => {
    const { child, state } = scripted("held");
    const { instanceId } = await runLab(({ step }) => step.child("site", lab, { name: child }, { key: "a" }));
    expect(await reaches(instanceId, "waiting")).toBe("waiting");
    const { id } = await only(instanceId);
    const instance = await instances.get(probeEnv, operator, instanceId);
    expect(instance.waiting_for).toEqual([
      { step: "site [a]", event_type: null, subject: null, approval_id: null, child_id: id, until: null },
    ]);
    const { items } = await instances.list(probeEnv, operator, { parent: instanceId, limit: 10 });
    expect(items).toMatchObject([{ id, parent: { id: instanceId, step: "site [a]" } }]);
    expect((await instances.list(probeEnv, { ...operator, tenantId: "another" }, { parent: instanceId, limit: 10 })).items).toEqual([]);
    const waits = async () => (await instances.steps(probeEnv, operator, instance)).steps;
    const steps = await until(waits, (all) => all.some(({ state }) => state === "waiting"));
    expect(steps).toMatchObject([
      { name: "site [a]", type: "do", state: "complete", effects: [{ class: "commit", state: "done" }] },
      { name: "site [a]", type: "waitForEvent", state: "waiting", event_type: null, child_id: id },
    ]);
    state.now = "fine";
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
  });

  it("has no later deadline than its parent", async () => {
    const child = labCode(async () => 1);
    const mustEndBy = new Date(Date.now() + 3_600_000).toISOString();
    const { instanceId } = await runLab(({ step }) => step.child("site", lab, { name: child }), { mustEndBy });
    await outputOf(instanceId);
    expect(await only(instanceId)).toMatchObject({ must_end_by: Date.parse(mustEndBy) });
  });

  it("of a child of a child is bounded by maxHops", async () => {
    const name = fresh("circle");
    const { instanceId } = await runLab(({ step }) => step.child("again", lab, { name, note: fresh() }), { name });
    expect(await reaches(instanceId, "errored")).toBe("errored");
    const deep = await rows("SELECT 1 FROM millrace_instances WHERE subject = ?1", name);
    expect(deep).toHaveLength(4);
    const [error] = await rows<{ code: string }>(
      "SELECT error->>'code' AS code FROM millrace_instances WHERE subject = ?1 AND error->>'code' = 'too_many_hops'",
      name,
    );
    expect(error?.code).toBe("too_many_hops");
  });

  it("with an invalid input fails its step at once", async () => {
    const { instanceId } = await runLab(({ step }) => step.child("site", lab, { name: 7 } as never));
    expect(await reaches(instanceId, "errored")).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({ code: "invalid_payload" });
    expect(await childrenOf(instanceId)).toEqual([]);
  });

  it("with a skipped start returns the operator's output, also an output with a field `child`, on every replay", async () => {
    const skip = (id: string, step: string, output: unknown) =>
      instances.act(probeEnv, operator, "skip", id, { reason: "test", step, output }).catch((error: MillraceError) => error.message);
    for (const output of [{ child: "Ann" }, null]) {
      const { instanceId } = await runLab(({ step }) => step.child("site", lab, { name: 7 } as never));
      expect(await reaches(instanceId, "errored")).toBe("errored");
      expect(await skip(instanceId, "site", output)).toBe('The start of the child failed: skip "child site".');
      await skip(instanceId, "child site", output);
      expect(await reaches(instanceId, "complete")).toBe("complete");
      expect(await restartLab(instanceId)).toBe("complete");
      expect(await outputOf(instanceId)).toEqual(output);
    }
  });

  it("has the types of its workflow's input and result", () => {
    const greet = defineWorkflow({
      name: "greet-child",
      input: z.object({ name: z.string(), times: z.int().default(1) }),
      run: async ({ input }) => ({ text: `Hello ${input.name}` }),
    });
    const typed = (step: Steps) => step.child("greet", greet, { name: "Ann" });
    expectTypeOf<ReturnType<typeof typed>>().resolves.toEqualTypeOf<{ text: string }>();
    // @ts-expect-error The name is missing.
    const wrong = (step: Steps) => step.child("greet", greet, { times: 2 });
    expect(wrong).toBeTypeOf("function");
  });
});

describe("Crash windows of a child", () => {
  const simple = () => {
    let runs = 0;
    const child = labCode(async ({ step }) => {
      await step.commit("work", () => {
        runs++;
        return {};
      });
      return "done";
    });
    return { child, runs: () => runs };
  };

  it.each([
    "W03 effect done, not recorded",
    "W06 about to record",
    "O01 committed, not relayed",
    "W04 committed, caller saw an error",
    "W05 recorded, step result lost",
  ] as const)("starts one child if the parent dies at its start (%s)", async (point) => {
    using _ = skipPauses();
    const its = simple();
    const name = fresh("lab");
    const { died } = dieAt(point, name);
    const { instanceId } = await runLab(({ step }) => step.child("site", lab, { name: its.child }), { name });
    await until(
      async () => died(),
      (isSo) => isSo,
    );
    await until(
      async () => {
        await keeperRound();
        return statusOf(instanceId);
      },
      (status) => status === "complete",
    );
    expect(await childrenOf(instanceId)).toHaveLength(1);
    expect(its.runs()).toBe(1);
  });

  it.each(["child ended, parent not notified", "parent notified, not recorded", "W33 end recorded, replay not over"] as const)(
    "resumes the parent if the process dies at the child's end (%s)",
    async (point) => {
      const its = simple();
      const { died } = dieAt(point, its.child);
      let results = 0;
      const { instanceId } = await runLab(async ({ step }) => {
        await step.child("site", lab, { name: its.child });
        await step.commit("after", () => {
          results++;
          return {};
        });
      });
      void died;
      await until(
        async () => {
          await keeperRound();
          return statusOf(instanceId);
        },
        (status) => status === "complete",
      );
      expect(results).toBe(1);
      expect(await childrenOf(instanceId)).toMatchObject([{ status: "complete" }]);
    },
  );

  it("resumes the parent if the keeper records the end of the child", async () => {
    const its = simple();
    const { instanceId } = await runLab(({ step }) => step.child("site", lab, { name: its.child }));
    expect(await outputOf(instanceId)).toBe("done");
    const { id } = await only(instanceId);
    // As after a crash before both writes: the child's end, and the parent's next steps.
    await rows("UPDATE millrace_waits SET signal_id = NULL, told_at = NULL WHERE instance_id = ?1", instanceId);
    await rows(
      "UPDATE millrace_instances SET status = 'running', result = NULL, seen = 1, check_at = 1 WHERE id IN (?1, ?2)",
      instanceId,
      id,
    );
    await rows("DELETE FROM millrace_signals WHERE subject = ?1", id);
    await (await LAB.get(instanceId)).restart();
    await until(
      async () => {
        await rows("UPDATE millrace_instances SET check_at = 1 WHERE id = ?1 AND status = 'running'", id);
        await keeperRound();
        return statusOf(instanceId);
      },
      (status) => status === "complete",
    );
    expect(await outputOf(instanceId)).toBe("done");
  });
});
