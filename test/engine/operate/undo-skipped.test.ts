import { defineStep, notRetryable, sql, upstreamRefused } from "millrace";
import { instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { dieAt, operator, probeEnv, rows } from "../harness.ts";
import { errorOf, held, runLab } from "../lab.ts";
import { back, effect, failed, retry, undo } from "./operating.ts";
import { kept } from "./scene.ts";
import { goneBack, skip, statesOf, undoFailed, undoneInPart, van } from "./undo-failing.ts";

/** A complete run with a van and with a booking that its upstream refuses to undo. */
async function vanAndBooking(world: string[]): Promise<string> {
  const { instanceId: id } = await runLab(async ({ step }) => {
    await step.effect("van", van(world), null);
    await step.effect(
      "book",
      effect("keyed", async () => world.push("book"), { undo: goneBack("keyed") }),
      null,
    );
  });
  expect(await kept(id, "complete", "errored")).toBe("complete");
  return id;
}

describe("W19 I15 A skip of an undo step", () => {
  it.each(["keyed", "natural", "lookup", "once"] as const)(
    "a skipped undo step of class %s counts its effect as undone, and the undo continues with the rest",
    async (of) => {
      const world: string[] = [];
      const { instanceId: id, name } = await runLab(async ({ step, payload }) => {
        await step.effect("van", van(world), null);
        const book = effect("keyed", async () => world.push("book"), { undo: goneBack(of) });
        await step.effect("book", book, null, {
          undo: () => ({ statements: [sql`INSERT INTO probe_rows (id, kind, name) VALUES (${payload.name}, 'undo', ${payload.name})`] }),
        });
      });
      expect(await kept(id, "complete", "errored")).toBe("complete");
      await undoneInPart(id);
      expect(await errorOf(id)).toMatchObject({ step: "undo book" });
      expect(await instances.plan(probeEnv, operator, "skip", id, { step: "undo book" })).toMatchObject({
        refused: null,
        from: "undo book",
        consequence: expect.stringContaining('an operator has undone "book"'),
        effects: [
          { step: "book", item: "", verdict: "skipped" },
          { step: "van", item: "", verdict: "undone" },
        ],
      });
      expect(world).toEqual(["van", "book"]);

      await skip(id, "undo book");
      expect(await kept(id, "terminated", "errored")).toBe("terminated");
      expect(world).toEqual(["van", "book", "van back"]);
      expect(await rows("SELECT kind FROM probe_rows WHERE name = ?1", name)).toEqual([{ kind: "undo" }]);
      expect(await statesOf(id)).toEqual([
        ...["van 1: superseded", "van 2: failed", "book 1: superseded", "book 2: failed"],
        ...["undo book 1: done", "undo van 1: done"],
      ]);
      const shown = await instances.effects(probeEnv, operator, id);
      expect(shown.filter(({ skipped }) => skipped).map(({ step }) => step)).toEqual(["undo book"]);
      expect(await rows("SELECT verb, result, reason FROM millrace_actions WHERE instance_id = ?1 ORDER BY at", id)).toEqual([
        { verb: "undo", result: "applied", reason: "called off" },
        { verb: "skip_step", result: "applied", reason: "an operator has undone the effect" },
      ]);

      expect(await instances.plan(probeEnv, operator, "retry", id, {})).toMatchObject({
        note: null,
        consequence: expect.stringContaining("no question is asked twice"),
      });
      await retry(id);
      expect(await kept(id, "complete", "errored")).toBe("complete");
      expect(world).toEqual(["van", "book", "van back", "van", "book"]);
    },
  );

  it("an undo handler that was skipped runs again in a later undo, after a retry has repeated its effect", async () => {
    const world: string[] = [];
    const state = { gone: true };
    const { instanceId: id } = await runLab(async ({ step }) => {
      const cancels = back(async () => (state.gone ? Promise.reject(upstreamRefused("No such booking.", 404)) : world.push("book back")));
      await step.effect(
        "book",
        effect("keyed", async () => world.push("book"), { undo: cancels }),
        null,
      );
    });
    expect(await kept(id, "complete", "errored")).toBe("complete");
    await undoneInPart(id);
    await skip(id, "undo book");
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    await retry(id);
    expect(await kept(id, "complete", "errored")).toBe("complete");
    await undoneInPart(id);
    await skip(id, "undo book");
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    await retry(id);
    expect(await kept(id, "complete", "errored")).toBe("complete");
    state.gone = false;
    await undo(id);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(world).toEqual(["book", "book", "book", "book back"]);
    expect((await statesOf(id)).filter((one) => one.startsWith("undo"))).toHaveLength(3);
  });

  it("an error of the workflow code after a skip in an undo has no hint about the skipped output", async () => {
    const state = { broken: false };
    const { instanceId: id } = await runLab(async ({ step }) => {
      await step.effect(
        "book",
        effect("keyed", async () => "book", { undo: goneBack("keyed") }),
        null,
      );
      if (state.broken) throw new Error("A setting is missing.");
    });
    expect(await kept(id, "complete", "errored")).toBe("complete");
    await undoneInPart(id);
    await skip(id, "undo book");
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    state.broken = true;
    await retry(id);
    await failed(id);
    const { error } = await instances.get(probeEnv, operator, id);
    expect(error).toMatchObject({ message: "A setting is missing." });
    expect(error?.hint).toBeUndefined();
  });

  it("a skip of an undo step that is a commit needs the item's key, and writes no rows", async () => {
    const world: string[] = [];
    const { instanceId: id } = await runLab(async ({ step }) => {
      await step.effect("van", van(world), null);
      const undoing = () => {
        throw notRetryable("The ledger is closed.");
      };
      await step.map(["a", "b"], { key: (item) => item }, (_, own) => own.commit("write", () => ({}), { undo: undoing }));
    });
    expect(await kept(id, "complete", "errored")).toBe("complete");
    await undoneInPart(id);
    for (const item of ["b", "a"]) {
      const step = `undo write [${item}]`;
      expect(await errorOf(id)).toMatchObject({ step });
      expect((await instances.plan(probeEnv, operator, "skip", id, { step })).refused).toContain('send its key as "item"');
      await skip(id, "undo write", { item });
      expect(await kept(id, "terminated", "errored")).toBe(item === "a" ? "terminated" : "errored");
    }
    expect(world).toEqual(["van", "van back"]);
    expect((await statesOf(id)).filter((one) => one.startsWith("write 1"))).toEqual(["write 1: superseded", "write 1: superseded"]);
  });

  it("a skip in an undo is executed by the keeper when the process dies after the commit, and once when the replay dies after its write", async () => {
    const world: string[] = [];
    const id = await vanAndBooking(world);
    await undoneInPart(id);
    dieAt("skip committed, not applied");
    await expect(skip(id, "undo book")).rejects.toThrow("Died");
    // The dry run lists effects of the workflow code, and not the accepted skip.
    expect((await instances.plan(probeEnv, operator, "undo", id, {})).effects.map(({ step }) => step)).toEqual(["book", "van"]);
    const { died } = dieAt("W05 recorded, step result lost", id);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(died()).toBe(true);
    expect(world).toEqual(["van", "book", "van back"]);
  });
});

it("a skip in an undo is accepted for the failed step only, by its own tenant only, and once for a double click", async () => {
  const world: string[] = [];
  const id = await vanAndBooking(world);
  await expect(skip(id, "undo book", { output: null })).rejects.toMatchObject({ code: "invalid_transition" });
  await undoneInPart(id);
  for (const step of ["undo van", "van", "book", "undo other"]) {
    expect((await instances.plan(probeEnv, operator, "skip", id, { step })).refused).toBe(
      `The undo did not fail at "${step}". It failed at: undo book.`,
    );
    await expect(skip(id, step)).rejects.toMatchObject({ code: "invalid_transition" });
  }
  const globex = { tenantId: "globex", actor: "gus" };
  await expect(instances.act(probeEnv, globex, "skip", id, { step: "undo book", reason: "mine?" })).rejects.toMatchObject({
    code: "instance_not_found",
  });
  const clicks = await Promise.allSettled([skip(id, "undo book"), skip(id, "undo book")]);
  expect(clicks.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
  expect(await kept(id, "terminated", "errored")).toBe("terminated");
  await expect(skip(id, "undo book", { output: null })).rejects.toMatchObject({ detail: { from: "terminated" } });
  expect(world).toEqual(["van", "book", "van back"]);
});

it("a skip is refused while an undo is running or in doubt, with that reason", async () => {
  const state = { go: false };
  const { instanceId: id } = await runLab(async ({ step }) => {
    const lost = async () => {
      await held(() => state.go);
      throw new Error("The answer was lost.");
    };
    await step.effect(
      "book",
      effect("keyed", async () => 1, { undo: defineStep({ effect: "once", run: lost }) as never }),
      null,
    );
  });
  expect(await kept(id, "complete", "errored")).toBe("complete");
  await undo(id);
  for (const status of ["running", "in_doubt"] as const) {
    expect(await kept(id, status, "errored")).toBe(status);
    const { refused } = await instances.plan(probeEnv, operator, "skip", id, { step: "undo book" });
    expect(refused).toContain(`The instance is ${status}`);
    await expect(skip(id, "undo book")).rejects.toMatchObject({ code: "invalid_transition", detail: { from: status } });
    state.go = true;
  }
});

it("the dry run of a retry of a failed undo lists the action for each remaining effect, from any starting step", async () => {
  const world: string[] = [];
  const { instanceId: id } = await runLab(async ({ step }) => {
    await step.effect("van", van(world), null);
    await step.effect(
      "stays",
      effect("keyed", async () => 1),
      null,
    );
    await step.effect(
      "book",
      effect("keyed", async () => world.push("book"), { undo: goneBack("keyed") }),
      null,
    );
    await step.commit("write", () => ({}), { undo: () => ({}) });
  });
  expect(await kept(id, "complete", "errored")).toBe("complete");
  const { action_id: actionId } = await undo(id);
  await undoFailed(id, actionId);
  const left = [
    { step: "book", item: "", verdict: "undone" },
    { step: "stays", item: "", verdict: "stays" },
    { step: "van", item: "", verdict: "undone" },
  ];
  expect(await instances.plan(probeEnv, operator, "retry", id, {})).toMatchObject({
    consequence: "The undo continues at the step that failed.",
    refused: null,
    effects: left,
  });
  expect((await instances.plan(probeEnv, operator, "retry", id, { from: "van" })).effects).toEqual(left);
  expect((await instances.plan(probeEnv, operator, "undo", id, {})).effects).toEqual(left);
  await instances.act(probeEnv, operator, "retry", id, { from: "van", reason: "once more" });
  await undoFailed(id, actionId);
  expect(world).toEqual(["van", "book"]);
});
