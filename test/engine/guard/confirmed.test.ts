import { type Commit, defineStep, sql } from "millrace";
import { effects, instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { fresh, happened, operator, probeEnv, reaches, rows, start, until } from "../harness.ts";
import { outputOf, platformReaches, runLab } from "../lab.ts";
import { followUps } from "./doubtful.ts";

describe("Unstorable output", () => {
  it("W11 an effect with an output that cannot be stored is not repeated; an operator enters the output, and the run continues", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "keyed", name: "act", output: "cycle", emit: true },
      { do: "commit", name: "after" },
    ]);
    expect(await reaches(instanceId, "errored", "complete")).toBe("errored");
    const [effect] = await instances.effects(probeEnv, operator, instanceId);
    expect(effect?.state).toBe("done");
    expect(effect?.error?.code).toBe("output_not_serializable");

    const { error } = await instances.get(probeEnv, operator, instanceId);
    expect(error?.message).toContain(`POST /v1/effects/${effect?.key}/confirm`);
    const refused = expect.stringContaining(`Confirm its output (POST /v1/effects/${effect?.key}/confirm)`);
    expect(await instances.plan(probeEnv, operator, "retry", instanceId, {})).toMatchObject({
      refused,
      effects: [{ step: "act", verdict: "needs_output" }],
    });
    const again = instances.act(probeEnv, operator, "retry", instanceId, { reason: "try" });
    await expect(again).rejects.toMatchObject({ code: "invalid_transition", message: refused });
    expect(await happened(`${name}/act`)).toHaveLength(1);

    await effects.resolve(probeEnv, operator, effect?.key ?? "", { verb: "confirm", output: "given" }, "read it from the upstream");
    expect(await instances.plan(probeEnv, operator, "retry", instanceId, {})).toMatchObject({
      refused: null,
      effects: [{ step: "act", verdict: "kept" }],
    });
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "the output is known now" });
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(
      await until(
        () => followUps(name),
        (found) => found.length === 2,
      ),
    ).toHaveLength(2);
    expect(await happened(`${name}/act`)).toHaveLength(1);
  });
});

describe("Confirmed output", () => {
  /** A run with a post of unknown outcome. */
  async function posting(
    definition: { output?: z.ZodType<{ id: string }> },
    record: (output: { id: string }) => Commit<never> = () => ({}),
  ) {
    let sent = 0;
    const post = defineStep({
      effect: "once",
      async run(): Promise<{ id: string }> {
        sent++;
        throw new Error("The connection was lost.");
      },
      ...definition,
    });
    const { instanceId } = await runLab(async ({ step }) => (await step.effect("post", post, {}, { record })).id.toUpperCase());
    expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
    const [effect] = await instances.effects(probeEnv, operator, instanceId);
    const confirm = (output: unknown) => effects.resolve(probeEnv, operator, effect?.key ?? "", { verb: "confirm", output }, "it is there");
    const doubt = () =>
      until(
        () => instances.effects(probeEnv, operator, instanceId),
        ([now]) => now?.state === "in_doubt" && now.epoch !== effect?.epoch,
      );
    return { instanceId, confirm, doubt, sent: () => sent };
  }

  it("W17 an effect that an operator confirms with an output of the wrong schema is in doubt again, with the reason", async () => {
    const { instanceId, confirm, doubt, sent } = await posting({ output: z.object({ id: z.string() }) });
    await confirm(null);
    const [again] = await doubt();
    expect(again).toMatchObject({ state: "in_doubt", error: { code: "in_doubt", message: expect.stringContaining("expected object") } });
    const shape = '{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}';
    expect(again?.error?.message).toContain(`The expected shape is: ${shape}. Confirm it with a valid output.`);
    expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
    await confirm({ id: "p1" });
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(await outputOf(instanceId)).toBe("P1");
    expect(sent()).toBe(1);
    expect(await rows("SELECT result FROM millrace_actions WHERE instance_id = ?1 AND verb = 'confirm'", instanceId)).toHaveLength(2);
  });

  it("W17 an effect confirmed with an output for which the step's `record` throws is in doubt again, and can be confirmed again", async () => {
    const { instanceId, confirm, doubt } = await posting({}, ({ id }) => ({
      statements: [sql`INSERT INTO probe_rows (id, kind, name) VALUES (${id.trim()}, 'post', ${id})`],
    }));
    await confirm({ nothing: "known" });
    await doubt();
    const id = crypto.randomUUID();
    await confirm({ id });
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(await rows("SELECT 1 FROM probe_rows WHERE id = ?1", id)).toHaveLength(1);
  });

  it("W17 an effect confirmed with an output whose rows the database refuses is in doubt again, and shows the error", async () => {
    const { instanceId, confirm, doubt, sent } = await posting({}, ({ id }) => ({
      statements: [sql`INSERT INTO probe_rows (id, kind, name) VALUES (${id}, 'post', 'p')`],
    }));
    await confirm({ iid: "p1" });
    const [again] = await doubt();
    expect(again?.error?.message).toContain("A value that is undefined was to be written");
    expect(again?.error?.message).toContain(
      "If the effect returned another output, confirm it with that output; otherwise its rows are invalid.",
    );
    expect(await reaches(instanceId, "in_doubt", "errored")).toBe("in_doubt");
    const id = crypto.randomUUID();
    await confirm({ id });
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(await rows("SELECT 1 FROM probe_rows WHERE id = ?1", id)).toHaveLength(1);
    expect(sent()).toBe(1);
  });

  it("W17 a confirmed output that makes the run fail can be replaced by another confirmation; a retry then continues", async () => {
    const { instanceId, confirm, sent } = await posting({});
    await confirm({ nothing: "known" });
    expect(await reaches(instanceId, "errored", "complete")).toBe("errored");
    const [before] = await instances.effects(probeEnv, operator, instanceId);
    const { error } = await instances.get(probeEnv, operator, instanceId);
    expect(error?.hint).toContain(`the output that an operator confirmed for "post"`);
    expect(error?.hint).toContain(`confirm the correct output (POST /v1/effects/${before?.key}/confirm)`);
    const note = expect.stringContaining('A retry keeps the output that an operator gave for "post"');
    expect(await instances.plan(probeEnv, operator, "retry", instanceId, {})).toMatchObject({
      note,
      effects: [{ step: "post", verdict: "kept" }],
    });
    await confirm({ id: "p2" });
    const [after] = await instances.effects(probeEnv, operator, instanceId);
    expect(after?.epoch).toBeGreaterThan(before?.epoch ?? 0);
    await platformReaches(instanceId, "errored");
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "the output is corrected" });
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(await outputOf(instanceId)).toBe("P2");
    expect(sent()).toBe(1);
  });
});
