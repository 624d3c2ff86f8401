import { env } from "cloudflare:workers";
import { sql } from "millrace";
import { expect, it } from "vitest";
import { fresh, reaches, rows } from "../harness.ts";
import { runLab } from "../lab.ts";

const errorOf = async (id: string) =>
  JSON.parse((await rows<{ error: string }>("SELECT error FROM millrace_instances WHERE id = ?1", id))[0]?.error ?? "{}");

const SAID = 'The database has no table "loyality". Check the spelling, or apply the migration that creates it, then retry the instance.';

it("a commit into a missing table fails its instance at the first attempt, and no other instance of its group", async () => {
  const good = runLab(({ step }) => step.commit("note", () => ({ output: "noted" })));
  const { instanceId } = await runLab(({ step }) =>
    step.commit("credit points", () => ({ statements: [sql`INSERT INTO loyality (id) VALUES (${fresh()})`] })),
  );
  expect(await reaches(instanceId, "errored", "complete")).toBe("errored");
  expect(await errorOf(instanceId)).toMatchObject({ code: "config_invalid", step: "credit points", attempts: 1, message: SAID });
  expect(await reaches((await good).instanceId, "errored", "complete")).toBe("complete");
});

it("a read of a missing table fails its instance, in a step and between steps", async () => {
  const read = () => env.DB.prepare("SELECT * FROM loyality").all();
  const { instanceId: inStep } = await runLab(({ step }) => step.read("look", async () => (await read()).results.length));
  const { instanceId: between } = await runLab(async () => (await read()).results.length);
  for (const [id, step] of [
    [inStep, "look"],
    [between, ""],
  ] as const) {
    expect(await reaches(id, "errored", "complete")).toBe("errored");
    expect(await errorOf(id)).toMatchObject({ code: "config_invalid", step, attempts: 1, message: SAID });
  }
});

it("an error about a missing column names the column and its table", async () => {
  const { instanceId } = await runLab(({ step }) =>
    step.commit("note", () => ({ statements: [sql`INSERT INTO probe_rows (id, kind, name, points) VALUES ('a', 'b', 'c', 1)`] })),
  );
  expect(await reaches(instanceId, "errored", "complete")).toBe("errored");
  expect((await errorOf(instanceId)).message).toContain('The database has no column "points" in the table "probe_rows".');
});

it("an upstream's error about a missing table in its own database is retried", async () => {
  let asked = 0;
  const { instanceId } = await runLab(({ step }) =>
    step.read(
      "ask",
      async () => {
        if (++asked < 2) throw new Error("The shop answered 500: D1_ERROR: no such table: stock: SQLITE_ERROR");
        return asked;
      },
      { retries: { limit: 2, delay: 10 } },
    ),
  );
  expect(await reaches(instanceId, "errored", "complete")).toBe("complete");
});
