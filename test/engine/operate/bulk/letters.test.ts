import { expect, it } from "vitest";
import { howMany } from "../../../full-size.ts";
import { reaches, rows, until } from "../../harness.ts";
import { auditOf, balanced, lettersOfThreeCauses, theOperator } from "./bulk.ts";

const lettersIn = async (tenantId: string, state: string) =>
  (await rows("SELECT 1 FROM millrace_dead_letters WHERE tenant_id = ?1 AND state = ?2", tenantId, state)).length;

it("a bulk replay of the dead letters of one cause runs in stages of 1, 10 and the rest, can be halted and resumed, and leaves two other causes open", async () => {
  const [down, invalid, newer] = [howMany(60, 600), howMany(20, 250), howMany(10, 150)];
  const { tenantId, start, ask, show, over, items } = await theOperator();
  const { name, mend } = await lettersOfThreeCauses(tenantId, [down, invalid, newer]);
  expect(await lettersIn(tenantId, "open")).toBe(down + invalid + newer);

  mend();
  const asked = { verb: "replay", filter: { reason: "exhausted" }, ramp: [1, 10] };
  const plan = await ask<{ matched: number; sample: object[]; stages: number[] }>("/v1/bulk-actions", {
    ...asked,
    reason: "r",
    dry_run: true,
  });
  expect(plan).toMatchObject({ status: 200, body: { matched: down, stages: [1, 10, down - 11] } });
  expect(plan.body.sample).toHaveLength(10);

  // The rate is so low that some items remain to halt, for any delay of the poll.
  const { status, body } = await start({ ...asked, rate_per_second: howMany(8, 100) });
  expect({ status, ...body }).toMatchObject({ status: 202, state: "running", matched: down, remaining: down });
  await until(
    () => lettersIn(tenantId, "replayed"),
    (replayed) => replayed > 15,
  );
  expect(await ask(`/v1/bulk-actions/${body.id}/abort`, { reason: "lunch" })).toMatchObject({ status: 202, body: { state: "aborted" } });
  expect(await reaches(body.instance_id, "complete")).toBe("complete");
  const halted = balanced(await show(body.id));
  expect(halted).toMatchObject({ state: "aborted", why: expect.stringMatching(/^Aborted by tess: .*completed items are kept/), failed: 0 });
  expect(halted.remaining).toBeGreaterThan(0);
  expect(await lettersIn(tenantId, "replayed")).toBe(halted.done);

  expect((await ask(`/v1/bulk-actions/${body.id}/resume`, { reason: "go on" })).body).toMatchObject({ state: "running" });
  expect(await over(body.id)).toMatchObject({ state: "complete", matched: down, done: down, skipped: 0, failed: 0, remaining: 0 });
  expect(await lettersIn(tenantId, "replayed")).toBe(down);
  expect(await rows("SELECT id FROM probe_rows WHERE name = ?1", name)).toHaveLength(down);
  expect(await items(body.id)).toMatchObject(Array.from({ length: Math.min(down, 200) }, (_, n) => ({ n, result: "done" })));
  const audit = await auditOf(body.id);
  expect([audit.length, new Set(audit.map(({ target }) => target)).size]).toEqual([down, down]);

  // Dead letters of the other two causes fail again, and the bulk replay stops at the first one.
  const others = (await start({ verb: "replay", filter: {}, ramp: [1, 10] })).body;
  const stopped = await over(others.id);
  expect(stopped).toMatchObject({ state: "stopped", matched: invalid + newer, done: 0, failed: 1, why: expect.stringContaining("1 of 1") });
  const [failed] = await items(others.id, "failed");
  expect(failed).toMatchObject({ n: 0, code: "invalid_payload", why: expect.stringContaining("name") });
  const skip = (await start({ verb: "skip", filter: { reason: "invalid_payload" } })).body;
  expect(await over(skip.id)).toMatchObject({ state: "complete", done: invalid, failed: 0 });
  // After a resume the bulk replay skips items that another operator has settled, and the rest fails.
  let end = stopped;
  for (let resumed = 0; end.state === "stopped" && resumed < 10; resumed++) {
    await ask(`/v1/bulk-actions/${others.id}/resume`, { reason: "all the same" });
    end = await over(others.id);
  }
  expect(end).toMatchObject({ state: "complete", done: 0, skipped: invalid - 1, failed: newer + 1, remaining: 0 });
  expect(end.why).toContain(`All ${newer + 1} failed`);
  const settled = (await show(body.id)).done + (await show(skip.id)).done;
  expect(settled + (await lettersIn(tenantId, "open"))).toBe(down + invalid + newer);
});
