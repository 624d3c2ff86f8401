import { defineStep, sql } from "millrace";
import { effects, instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { operator, probeEnv, reaches, rows, until } from "../harness.ts";
import { ada, REDACTED, reader } from "../inspect/told.ts";
import { outputOf, runLab } from "../lab.ts";

type Id = { id: string };

/** A row with an id that is already in use. The database refuses it when the effect records it. */
async function taken(): Promise<string> {
  const id = crypto.randomUUID();
  await probeEnv.DB.prepare("INSERT INTO probe_rows (id, kind, name) VALUES (?1, 'taken', 't')").bind(id).run();
  return id;
}

const row = (id: string) => ({ statements: [sql`INSERT INTO probe_rows (id, kind, name) VALUES (${id}, 'mail', 'm')`] });

describe("Refused rows", () => {
  /** A run with a once effect that has happened. The row that it records is refused until `mends.id` is set. */
  async function refused() {
    const mends = { id: await taken() };
    let sent = 0;
    const mail = defineStep({ effect: "once", run: async (): Promise<Id> => ({ id: `mail-${++sent}` }) });
    const { instanceId } = await runLab(async ({ step }) => step.effect("mail", mail, {}, { record: () => row(mends.id) }));
    const doubt = async (epoch = 0) => {
      const of = async () => (await effects.list(probeEnv, operator, { state: "in_doubt", limit: 200 })).items;
      const found = await until(
        async () => (await of()).find((one) => one.instance_id === instanceId && one.epoch > epoch),
        (one) => one !== undefined,
      );
      if (!found) throw new Error("No effect is in doubt.");
      return found;
    };
    const answer = async (given: Parameters<typeof effects.resolve>[3]) =>
      effects.resolve(probeEnv, operator, (await doubt()).key, given, "looked at it");
    return { instanceId, mends, doubt, answer, sent: () => sent };
  }

  it("a once effect with refused rows shows its answer, the rows and a remedy; an operator cannot reject it", async () => {
    const { instanceId, doubt, answer, sent } = await refused();
    const { error, answered, consequences, epoch } = await doubt();
    expect(error?.message).toMatch(
      /^The effect happened and returned \{"id":"mail-1"\}\. The rows recorded with it were refused: .*UNIQUE/,
    );
    expect(error?.message).toContain("Deploy code with valid rows, then confirm it with that output; or cancel the instance");
    expect(answered).toEqual({ output: { id: "mail-1" }, output_ref: null });
    expect(consequences).toMatchObject({ reject: null, retry: expect.stringContaining("it happened, so this is a second time") });
    expect(consequences.confirm).toContain("Nothing is sent. If its rows are refused again");

    const why = expect.stringMatching(/^The effect happened, but .* A retry would execute the effect a second time\.$/);
    await expect(answer({ verb: "reject" })).rejects.toMatchObject({ code: "invalid_transition", message: why });
    expect(await rows("SELECT verb, result FROM millrace_actions WHERE instance_id = ?1", instanceId)).toEqual([
      { verb: "reject", result: "no_change" },
    ]);
    expect(await doubt()).toMatchObject({ epoch, answered: { output: { id: "mail-1" } } });
    expect(sent()).toBe(1);
  });

  it("W17 a once effect confirmed while its rows are still refused is in doubt again; with valid rows the run continues", async () => {
    const { instanceId, mends, doubt, answer, sent } = await refused();
    let { epoch } = await doubt();
    for (const [output, fault] of [
      [
        { id: "mail-1" },
        "UNIQUE.* The output is correct, but the rows that the code makes from it are invalid\\. Deploy code with valid rows",
      ],
      [null, "UNIQUE.* If the effect returned another output, confirm it with that output; otherwise its rows are invalid\\."],
    ] as const) {
      await answer({ verb: "confirm", output });
      const again = await doubt(epoch);
      expect(again.error?.message).toMatch(new RegExp(`^The rows that "mail" records with the confirmed output were refused: .*${fault}`));
      expect(again.answered).toEqual({ output: { id: "mail-1" }, output_ref: null });
      expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
      epoch = again.epoch;
    }
    await expect(answer({ verb: "reject" })).rejects.toMatchObject({ code: "invalid_transition" });
    mends.id = crypto.randomUUID();
    await answer({ verb: "confirm", output: { id: "mail-1" } });
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(await outputOf(instanceId)).toEqual({ id: "mail-1" });
    expect(await rows("SELECT 1 FROM probe_rows WHERE id = ?1", mends.id)).toHaveLength(1);
    expect((await instances.effects(probeEnv, operator, instanceId))[0]).toMatchObject({ state: "done", error: null, answered: null });
    expect(sent()).toBe(1);
  });

  it("a once effect with refused rows happens a second time when an operator repeats it; the first answer is kept", async () => {
    const { instanceId, mends, answer, doubt, sent } = await refused();
    await doubt();
    mends.id = crypto.randomUUID();
    await answer({ verb: "retry_anyway" });
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(sent()).toBe(2);
    expect(await instances.effects(probeEnv, operator, instanceId)).toMatchObject([
      { generation: 1, state: "superseded", answered: { output: { id: "mail-1" } } },
      { generation: 2, state: "done", output: '{"id":"mail-2"}', answered: null },
    ]);
  });

  it("an instance with refused rows ends by a cancel without undo; an operator can still confirm the effect for the record", async () => {
    const { instanceId, answer, doubt, sent } = await refused();
    await doubt();
    await instances.act(probeEnv, operator, "cancel", instanceId, { undo: false, reason: "the row cannot be written" });
    expect(await reaches(instanceId, "terminated")).toBe("terminated");
    await expect(answer({ verb: "reject" })).rejects.toMatchObject({ code: "invalid_transition" });
    await answer({ verb: "confirm", output: { id: "mail-1" } });
    expect((await instances.effects(probeEnv, operator, instanceId))[0]).toMatchObject({ state: "confirmed", output: '{"id":"mail-1"}' });
    expect(sent()).toBe(1);
  });

  it("a once effect without output and with refused rows can be confirmed with null", async () => {
    const id = await taken();
    const mail = defineStep({ effect: "once", run: async () => {} });
    const { instanceId } = await runLab(async ({ step }) => step.effect("mail", mail, {}, { record: () => row(id) }));
    expect(await reaches(instanceId, "in_doubt", "errored")).toBe("in_doubt");
    const [before] = await instances.effects(probeEnv, operator, instanceId);
    expect(before?.answered).toEqual({ output: null, output_ref: null });
    await effects.resolve(probeEnv, operator, before?.key ?? "", { verb: "confirm", output: null }, "the effect has no output");
    const [again] = await until(
      () => instances.effects(probeEnv, operator, instanceId),
      ([now]) => now?.state === "in_doubt" && now.epoch !== before?.epoch,
    );
    expect(again?.error?.message).toMatch(/UNIQUE.* The output is correct, but the rows that the code makes from it are invalid\./);
    expect(again?.answered).toEqual({ output: null, output_ref: null });
  });

  it("the sensitive parts of an effect's output are hidden in every view when its rows are refused", async () => {
    const [by, person] = [await reader(), ada()];
    const mail = defineStep({ effect: "once", run: async () => ({ sent_to: person.email }) });
    const { instanceId } = await runLab(
      async ({ step }) => {
        const id = await step.read("id", taken);
        await step.effect("mail", mail, {}, { record: () => row(id) });
      },
      { person },
    );
    expect(await reaches(instanceId, "in_doubt", "errored")).toBe("in_doubt");
    const { body: instance } = await by.get(`/v1/instances/${instanceId}`);
    const answered = { output: { sent_to: REDACTED }, output_ref: null };
    expect(instance.unknown_outcomes).toMatchObject([{ step: "mail", reject: null, answered, retry: expect.any(String) }]);
    const { items } = (await by.get(`/v1/instances/${instanceId}/effects`)).body;
    expect(items).toMatchObject([{ step: "mail", state: "in_doubt", answered }]);
    expect(JSON.stringify([instance, items])).not.toContain(person.email);
  });
});
