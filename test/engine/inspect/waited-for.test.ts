import { defineStep } from "millrace";
import { expect, it } from "vitest";
import { asking } from "../asking.ts";
import { ask } from "../callbacks/heard.ts";
import { reaches } from "../harness.ts";
import { held } from "../lab.ts";

it("a request that waits for an instance returns the result at its end, and at once for an ended instance", async () => {
  const caller = await asking();
  let go = false;
  const id = await ask(caller, async () => {
    await held(() => go);
    return { label: "L-1" };
  });
  const waiting = caller.get(`/v1/instances/${id}?wait=30`);
  const first = await Promise.race([waiting, caller.get(`/v1/instances/${id}`)]);
  expect(first.body.status).not.toBe("complete");
  go = true;
  expect((await waiting).body).toMatchObject({ status: "complete", result: { label: "L-1" } });
  const began = Date.now();
  expect((await caller.get(`/v1/instances/${id}?wait=30`)).body.status).toBe("complete");
  expect(Date.now() - began).toBeLessThan(10_000);
});

it("a request that waits for an instance returns when the instance asks a question; a second request returns after the answer", async () => {
  const caller = await asking();
  const id = await ask(caller, ({ step }) => step.approve("may it", { question: "May it?", timeout: "1 day" }));
  const began = Date.now();
  const { body } = await caller.get(`/v1/instances/${id}?wait=30`);
  expect(Date.now() - began).toBeLessThan(20_000);
  expect(body).toMatchObject({ status: "waiting", waiting_for: [{ step: "may it", approval_id: expect.any(String) }] });
  await caller.post(`/v1/approvals/${body.waiting_for[0].approval_id}/approve`, { reason: "yes" });
  expect((await caller.get(`/v1/instances/${id}?wait=30`)).body.status).toBe("complete");
});

it("a request that waits for an instance returns without a question when the instance was cancelled during that question", async () => {
  const caller = await asking();
  let go = false;
  const taken = defineStep({ effect: "natural", run: async () => null, undo: { effect: "natural", run: () => held(() => go) } });
  const id = await ask(caller, async ({ step }) => {
    await step.effect("take", taken, {});
    await step.approve("may it", { question: "May it?", timeout: "1 day" });
  });
  await caller.get(`/v1/instances/${id}?wait=30`);
  await caller.post(`/v1/instances/${id}/cancel`, { reason: "no" });
  const waiting = caller.get(`/v1/instances/${id}?wait=30`);
  const first = await Promise.race([waiting, caller.get(`/v1/instances/${id}`)]);
  expect(first.body.status).not.toBe("terminated");
  go = true;
  expect((await waiting).body).toMatchObject({ status: "terminated", undo: "done" });
});

it("a request that waits for a sleeping instance returns the current status after the requested seconds", async () => {
  const caller = await asking();
  const id = await ask(caller, ({ step }) => step.sleep("rest", "1 day"));
  const began = Date.now();
  const { status, body } = await caller.get(`/v1/instances/${id}?wait=1`);
  expect(Date.now() - began).toBeGreaterThanOrEqual(990);
  expect([status, body.result]).toEqual([200, null]);
  expect(["accepted", "queued", "running", "waiting"]).toContain(body.status);
});

it("a request that waits for an instance ends when its connection closes", async () => {
  const caller = await asking();
  let go = false;
  const id = await ask(caller, () => held(() => go));
  const hangsUp = new AbortController();
  const began = Date.now();
  const waiting = caller.get(`/v1/instances/${id}?wait=30`, hangsUp.signal).catch(() => undefined);
  await caller.get(`/v1/instances/${id}`);
  hangsUp.abort();
  await waiting;
  expect(Date.now() - began).toBeLessThan(15_000);
  go = true;
  await reaches(id, "complete");
});

it("a request that waits for another tenant's instance is refused at once, and a wait of more than 30 seconds is refused", async () => {
  const caller = await asking();
  const id = await ask(caller, ({ step }) => step.sleep("rest", "1 day"));
  const other = await asking(["read"]);
  expect(await other.get(`/v1/instances/${id}?wait=30`)).toMatchObject({ status: 404, body: { code: "instance_not_found" } });
  for (const wait of ["31", "-1", "a", "1.5"]) {
    expect(await caller.get(`/v1/instances/${id}?wait=${wait}`)).toMatchObject({ status: 422, body: { issues: [{ path: "wait" }] } });
  }
});
