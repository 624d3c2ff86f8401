import { atomically, sql } from "millrace";
import { expect, it } from "vitest";
import { fresh, reaches, rows } from "../harness.ts";
import { errorOf, runLab } from "../lab.ts";
import { env, lock } from "./locked.ts";

const put = (id: string, text: string) =>
  sql`INSERT INTO probe_rows (id, kind, name) VALUES (${id}, 'fenced', ${text}) ON CONFLICT (id) DO UPDATE SET name = excluded.name`;
const standing = async (id: string) => (await rows<{ name: string }>("SELECT name FROM probe_rows WHERE id = ?1", id))[0]?.name;

it("L02 a late write of a paused lock holder is refused with its whole batch, and the holder gets an error", async () => {
  const { under, object, name } = lock();
  const row = fresh("row");
  const late = under(async ({ fence }) => {
    await atomically(env.DB, [fence, put(row, "first")]);
    // The first holder pauses longer than its lock. Another holder acquires the lock, and writes.
    const action = { id: crypto.randomUUID(), verb: "break", target: name, instanceId: null, reason: "a pause" };
    await object.breakNow({ tenantId: "", name }, { tenantId: "", actor: "tess" }, action);
    await under(({ fence: next }) => atomically(env.DB, [next, put(row, "second")]));
    await atomically(env.DB, [fence, put(row, "late"), put(fresh("row"), "late")]);
  });
  await expect(late).rejects.toMatchObject({ code: "lock_lost" });
  expect(await standing(row)).toBe("second");
  expect(await rows("SELECT 1 FROM probe_rows WHERE name = 'late'")).toEqual([]);
});

it("a lock holder can write any number of times with its fence token", async () => {
  const { under } = lock();
  const row = fresh("row");
  await under(() => 1);
  await under(async ({ fence }) => {
    for (const text of ["one", "two"]) await atomically(env.DB, [fence, put(row, text)]);
  });
  expect(await standing(row)).toBe("two");
});

it("L02 a commit step with an old fence token fails, and writes neither its row nor its outcome", async () => {
  const { under } = lock();
  const row = fresh("row");
  const old = await under(({ fence }) => fence);
  await under(({ fence }) => atomically(env.DB, [fence, put(row, "newer")]));
  const { instanceId } = await runLab(async ({ step }) => {
    await step.commit("write", () => ({ statements: [old, put(row, "late")] }), { retries: { limit: 0, delay: 10 } });
  });
  expect(await reaches(instanceId, "errored", "complete")).toBe("errored");
  expect((await errorOf(instanceId))?.message).toContain("millrace_fences.token");
  expect(await standing(row)).toBe("newer");
});
