import { notRetryable } from "millrace";
import { effects, erasure, instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { dieAt, fresh, pauseAt, probeEnv, reaches, rows, until } from "../../harness.ts";
import { runLab } from "../../lab.ts";
import { effect } from "../operating.ts";
import { auditOf, balanced, type TheOperator, theOperator } from "./bulk.ts";

/** Runs of a tenant with a step that has sent a request and lost the answer. `timesOf` counts each run's requests. */
async function doubtful(tenantId: string, step: "charge" | "letter", count: number) {
  const state = { loses: true };
  const sent: string[] = [];
  const names = Array.from({ length: count }, () => fresh("lab"));
  const send = (name: string) =>
    effect("once", async () => {
      sent.push(name);
      if (state.loses) throw new Error("The answer was lost.");
      return {};
    });
  const ids: string[] = [];
  // The runs start in sequence, because a bulk action answers the oldest unknown outcome first.
  for (const name of names) {
    const { instanceId } = await runLab((call) => call.step.effect(step, send(name), {}), { name, tenantId });
    expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
    ids.push(instanceId);
  }
  const keys = ids.map((instanceId) => effects.key({ instanceId, step, item: "", generation: 1 }));
  const timesOf = () => names.map((name) => sent.filter((one) => one === name).length);
  return { ids, keys, state, timesOf };
}

interface Plan {
  matched: number;
  parts: { what: string; count: number; consequence: string }[];
  consequence: string | null;
  sample: { id: string; refused: string | null }[];
}

const asked = (verb: string, filter: object) => ({ verb, filter, ramp: [1], reason: "the upstream has no such request" });
const dry = async ({ ask }: TheOperator, body: object) =>
  (await ask<Plan>("/v1/bulk-actions", { ...body, dry_run: true, reason: "r" })).body;

describe("Effects with an unknown outcome in a bulk action", () => {
  it("a bulk reject of the effects of one step counts them in its dry run, repeats each once, and leaves other steps in doubt", async () => {
    const operator = await theOperator();
    const [charges, letters] = [await doubtful(operator.tenantId, "charge", 4), await doubtful(operator.tenantId, "letter", 2)];
    for (const { state } of [charges, letters]) state.loses = false;
    const now = "It is sent now, under the same key.";
    expect(await dry(operator, asked("reject", {}))).toMatchObject({
      matched: 6,
      parts: [
        { what: "lab · charge", count: 4, consequence: now },
        { what: "lab · letter", count: 2, consequence: now },
      ],
      consequence: expect.stringContaining("You state that none of these effects happened"),
      sample: [...charges.keys, ...letters.keys].map((id) => ({ id, refused: null })),
    });
    const { body } = await operator.start(asked("reject", { workflow: "lab", step: "charge" }));
    expect(await operator.over(body.id)).toMatchObject({ state: "complete", matched: 4, done: 4, skipped: 0, failed: 0 });
    for (const id of charges.ids) expect(await reaches(id, "complete")).toBe("complete");
    expect(charges.timesOf()).toEqual([2, 2, 2, 2]);
    expect(letters.timesOf()).toEqual([1, 1]);
    for (const id of letters.ids) expect(await reaches(id, "in_doubt", "running", "complete")).toBe("in_doubt");
    const audit = await auditOf(body.id);
    expect(audit.map(({ target }) => target).toSorted()).toEqual(charges.keys.toSorted());
    expect(audit.every(({ verb, result }) => verb === "reject" && result === "applied")).toBe(true);
    const items = await operator.ask<{ items: object[] }>(`/v1/bulk-actions/${body.id}/items`);
    const item = { result: "done", about: expect.stringMatching(/^charge · lab · /) };
    expect(items.body.items).toMatchObject(charges.ids.map((instance_id, n) => ({ n, target: charges.keys[n], instance_id, ...item })));
  });

  it("a bulk retry_anyway of effects in doubt repeats each once, under a new key", async () => {
    const operator = await theOperator();
    const { ids, state, timesOf } = await doubtful(operator.tenantId, "charge", 3);
    state.loses = false;
    const plan = await dry(operator, asked("retry_anyway", { step: "charge" }));
    expect(plan.parts).toEqual([
      { what: "lab · charge", count: 3, consequence: expect.stringContaining("under a new key: it may happen twice") },
    ]);
    expect(plan.consequence).toContain("happens twice, and this cannot be undone");
    const { body } = await operator.start(asked("retry_anyway", { step: "charge" }));
    expect(await operator.over(body.id)).toMatchObject({ state: "complete", matched: 3, done: 3 });
    for (const id of ids) expect(await reaches(id, "complete")).toBe("complete");
    expect(timesOf()).toEqual([2, 2, 2]);
    const entries = await rows<{ generation: number; state: string }>(
      "SELECT generation, state FROM millrace_inbox WHERE instance_id = ?1 ORDER BY generation",
      ids[0] ?? "",
    );
    expect(entries).toEqual([
      { generation: 1, state: "superseded" },
      { generation: 2, state: "done" },
    ]);
  });

  it("a bulk reject stops when its first repeated effect is in doubt again, counts that as failed, and asks for an operator's answer", async () => {
    const operator = await theOperator();
    const { keys, state, timesOf } = await doubtful(operator.tenantId, "charge", 3);
    const { body } = await operator.start(asked("reject", {}));
    const stopped = await operator.over(body.id);
    expect(stopped).toMatchObject({ state: "stopped", done: 0, failed: 1, remaining: 2 });
    expect(stopped.why).toContain("1 of 1 items of this stage failed");
    expect(await operator.items(body.id)).toMatchObject([
      {
        target: keys[0],
        result: "failed",
        code: "in_doubt",
        why: expect.stringContaining("an operator must resolve it (GET /v1/effects?state=in_doubt"),
      },
    ]);
    expect(timesOf()).toEqual([2, 1, 1]);
    state.loses = false;
    await operator.ask(`/v1/bulk-actions/${body.id}/resume`, { reason: "the upstream is available again" });
    expect(await operator.over(body.id)).toMatchObject({ state: "complete", done: 2, failed: 1, remaining: 0, why: null });
  });

  it("B02 a bulk reject skips an effect that another operator has confirmed meanwhile, and refuses an effect that is in doubt again", async () => {
    const operator = await theOperator();
    const { ids, keys, state, timesOf } = await doubtful(operator.tenantId, "charge", 3);
    const held = pauseAt("B02 items changed, chunk not recorded", operator.idOf("once"));
    state.loses = false;
    const { body } = await operator.start({ ...asked("reject", {}), stop_at_error_rate: 1 }, { "idempotency-key": "once" });
    await until(async () => held.reached(), Boolean);
    // The operator grace answers the second effect. The third loses its answer again.
    const grace = { tenantId: operator.tenantId, actor: "grace" };
    await effects.resolve(probeEnv, grace, keys[1] ?? "", { verb: "confirm", output: {} }, "it is there");
    state.loses = true;
    await effects.resolve(probeEnv, grace, keys[2] ?? "", { verb: "reject" }, "the upstream has no such request");
    await until(
      async () => timesOf()[2],
      (times) => times === 2,
    );
    expect(await reaches(ids[2] ?? "", "in_doubt")).toBe("in_doubt");
    state.loses = false;
    held.release();
    expect(balanced(await operator.over(body.id))).toMatchObject({ state: "complete", done: 1, skipped: 1, failed: 1 });
    expect(await operator.items(body.id)).toMatchObject([
      { result: "done" },
      {
        result: "skipped",
        why: expect.stringMatching(/^Last action by grace: confirm, .*Z\. The effect is (confirmed|done), not in_doubt/),
      },
      { result: "failed", code: "invalid_transition", why: expect.stringContaining("in doubt again: check the receiving side again") },
    ]);
    expect(timesOf()).toEqual([2, 1, 2]);
  });

  it("a bulk reject of effects of stopped or undone runs records that they did not happen, and sends nothing", async () => {
    const operator = await theOperator();
    const { ids, keys, timesOf } = await doubtful(operator.tenantId, "charge", 2);
    const [stopped = "", undone = ""] = ids;
    await instances.act(probeEnv, operator.as, "cancel", stopped, { undo: false, reason: "the supplier left" });
    await instances.act(probeEnv, operator.as, "cancel", undone, { reason: "the supplier left" });
    const plan = await dry(operator, { verb: "retry_anyway", ids: keys, ramp: [] });
    expect(plan.parts.map(({ count, consequence }) => [count, consequence]).toSorted()).toEqual([
      [1, expect.stringContaining("Nothing is sent now: a retry sends it, under a new key")],
      [1, expect.stringContaining("Refused: no run would execute the effect again")],
    ]);
    expect(plan.sample).toEqual([
      { id: keys[0], refused: null },
      { id: keys[1], refused: expect.stringContaining("No run would execute the effect again: its instance is being undone") },
    ]);
    // The process dies after the refusal and before the chunk's record. The refusal is recorded with its reason.
    const death = dieAt("B02 items changed, chunk not recorded", operator.idOf("again"));
    const refused = await operator.start({ verb: "retry_anyway", ids: keys.slice(1), ramp: [] }, { "idempotency-key": "again" });
    const why =
      "The only one failed. Read the reason of each failure (items with the result failed), fix the cause, and start another bulk action over the failed items.";
    expect(await operator.over(refused.body.id)).toMatchObject({ state: "complete", failed: 1, why });
    expect(death.died()).toBe(true);
    expect(await operator.items(refused.body.id)).toMatchObject([
      {
        code: "invalid_transition",
        why: expect.stringMatching(/^The action was refused and changed nothing\. No run would execute the effect again/),
      },
    ]);
    const { body } = await operator.start({ verb: "reject", ids: keys, ramp: [] });
    expect(await operator.over(body.id)).toMatchObject({ state: "complete", done: 2, failed: 0 });
    expect(await reaches(undone, "terminated")).toBe("terminated");
    expect(timesOf()).toEqual([1, 1]);
    const again = (await operator.start({ verb: "reject", ids: keys, ramp: [] })).body;
    expect(await operator.over(again.id)).toMatchObject({ state: "complete", skipped: 2, failed: 0 });
  });

  it("a bulk action refuses keys of unknown effects and of other tenants' effects, and a filter with an unknown workflow", async () => {
    const [operator, other] = [await theOperator(), await theOperator()];
    const [own, foreign] = [await doubtful(operator.tenantId, "charge", 1), await doubtful(other.tenantId, "charge", 1)];
    own.state.loses = false;
    const ids = [...own.keys, ...foreign.keys, "nothing"];
    const refused = expect.stringContaining("There is no such effect");
    expect(await dry(operator, { verb: "reject", ids })).toMatchObject({
      matched: 3,
      parts: [
        { what: "no effect in doubt", count: 2 },
        { what: "lab · charge", count: 1 },
      ],
      sample: [{ refused: null }, { id: foreign.keys[0], refused }, { id: "nothing", refused }],
    });
    const { body } = await operator.start({ verb: "reject", ids, ramp: [], stop_at_error_rate: 1 });
    expect(await operator.over(body.id)).toMatchObject({ state: "complete", matched: 3, done: 1, failed: 2 });
    expect(await operator.items(body.id)).toMatchObject([
      { target: own.keys[0], result: "done" },
      { target: foreign.keys[0], result: "failed", code: "effect_not_found" },
      { target: "nothing", result: "failed", code: "effect_not_found" },
    ]);
    expect(foreign.timesOf()).toEqual([1]);
    for (const [filter, words] of [
      [{ workflow: "labb" }, "perhaps `lab` is meant"],
      [{ status: "in_doubt" }, "filter.status"],
    ] as const) {
      const answer = await operator.start(asked("reject", filter));
      expect(answer).toMatchObject({ status: 422, body: { code: "invalid_payload" } });
      expect(JSON.stringify(answer.body)).toContain(words);
    }
    expect(await operator.start(asked("confirm", {}))).toMatchObject({ status: 422, body: { issues: [{ path: "verb" }] } });
  });

  it("a bulk reject answers two effects in doubt of one run separately, also when their run has failed", async () => {
    const operator = await theOperator();
    const state = { loses: true };
    const lost = () => effect("once", async () => (state.loses ? Promise.reject(new Error("Lost.")) : {}));
    const both = await runLab(({ step }) => Promise.all(["a", "b"].map((key) => step.effect("charge", lost(), {}, { key }))), {
      tenantId: operator.tenantId,
    });
    await until(
      async () => (await dry(operator, asked("reject", {}))).matched,
      (matched) => matched === 2,
    );
    const late = effect("natural", () => scheduler.wait(500).then(() => Promise.reject(notRetryable("No."))));
    const failed = await runLab(({ step }) => Promise.all([step.effect("letter", lost(), {}), step.effect("late", late, {})]), {
      tenantId: operator.tenantId,
    });
    expect(await reaches(failed.instanceId, "errored")).toBe("errored");
    const later = "Nothing is sent now: a retry sends it, under the same key.";
    expect((await dry(operator, asked("reject", { step: "letter" }))).parts).toEqual([
      { what: "lab · letter", count: 1, consequence: later },
    ]);
    state.loses = false;
    const { body } = await operator.start(asked("reject", {}));
    expect(await operator.over(body.id)).toMatchObject({ state: "complete", matched: 3, done: 3, failed: 0 });
    expect(await reaches(both.instanceId, "complete")).toBe("complete");
    expect(await reaches(failed.instanceId, "errored")).toBe("errored");
  });

  it("a bulk action lists effects in doubt without personal data, and its list omits an effect with a forgotten name in its key", async () => {
    const operator = await theOperator();
    const email = `${fresh("ada")}@ex.test`;
    const state = { loses: true };
    const send = effect("once", () => Promise.reject(state.loses ? new Error("Lost.") : notRetryable(`No mailbox ${email}.`)));
    const run = { tenantId: operator.tenantId, person: { email, city: "London" } };
    const { instanceId } = await runLab(({ step }) => step.effect("mail", send, {}, { key: email }), run);
    expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
    state.loses = false;
    const { body } = await operator.start(asked("reject", { step: "mail" }));
    expect(await operator.over(body.id)).toMatchObject({ state: "complete", failed: 1 });
    expect(await operator.items(body.id)).toMatchObject([{ code: "not_retryable", why: "No mailbox [redacted]." }]);
    const lists = () => rows<{ ids: string }>("SELECT ids FROM millrace_bulk_lists WHERE bulk_id = ?1", body.id);
    expect(JSON.stringify(await lists())).toContain(email);
    const by = { mentions: [email], rewrite: (_: string, text: string) => text.replaceAll(email, "[forgotten]") };
    for (const table of erasure.texts.filter((one) => one.table === "millrace_bulk_lists")) {
      await erasure.rewriteRows(probeEnv, { tenantId: operator.tenantId, table, by, from: null, apply: true });
    }
    expect(JSON.stringify(await lists())).toContain("[forgotten]");
    expect(JSON.stringify(await lists())).not.toContain(email);
  });
});
