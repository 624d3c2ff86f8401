import { type EffectCall, sql } from "millrace";
import { expect, it } from "vitest";
import { reaches, rows } from "../harness.ts";
import { errorOf, runLab } from "../lab.ts";
import { effect, ended, resolve } from "../operate/operating.ts";

const ALL_OF_THEM = "(SELECT group_concat(envelope) FROM millrace_instances)";
const DISGUISED = [{ fragment: ALL_OF_THEM }, { text: ALL_OF_THEM, params: [] }];

const insert = (name: string, kind: unknown) =>
  sql`INSERT INTO probe_rows (id, kind, name) VALUES (${crypto.randomUUID()}, ${kind as string}, ${name})`;

it.each(DISGUISED)("I12 An upstream's answer is never interpreted as SQL: %o", async (answer) => {
  const { instanceId, name } = await runLab(({ step, payload }) =>
    step.effect(
      "book",
      effect("keyed", async (_: EffectCall<unknown>) => answer),
      null,
      {
        record: (label) => ({ statements: [insert(payload.name, label)] }),
      },
    ),
  );
  expect(await ended(instanceId)).toBe("errored");
  expect(await errorOf(instanceId)).toMatchObject({ code: "config_invalid" });
  expect(await rows("SELECT kind FROM probe_rows WHERE name = ?1", name)).toEqual([]);
});

it.each(DISGUISED)("I12 An operator's confirmed output is never interpreted as SQL: %o", async (output) => {
  const { instanceId, name } = await runLab(({ step, payload }) =>
    step.effect(
      "mail",
      effect("once", () => Promise.reject(new Error("Lost."))),
      null,
      {
        record: (sent) => ({ statements: [insert(payload.name, sent)] }),
      },
    ),
  );
  await reaches(instanceId, "in_doubt");
  await resolve(instanceId, "mail", { verb: "confirm", output });
  expect(await reaches(instanceId, "in_doubt", "complete", "errored")).toBe("in_doubt");
  expect(await rows("SELECT kind FROM probe_rows WHERE name = ?1", name)).toEqual([]);
});

it("statements of the tag `sql` can be nested, with their values", () => {
  const inner = sql`name = ${"mint"}`;
  expect(sql`SELECT ${1}, ${sql.now} WHERE ${inner}`).toEqual({
    text: `SELECT ?1, ${sql.now.fragment} WHERE name = ?2`,
    params: [1, "mint"],
  });
});
