import { expect, it, onTestFinished, vi } from "vitest";
import { OrderPaid } from "../../docs/examples/messages.ts";
import { awaitPayment } from "../../docs/examples/payment.ts";
import { IS_FULL_SIZE } from "../../full-size.ts";
import { ProbeSignal } from "../../probe/messages.ts";
import { app } from "../../probe/worker.ts";
import { deliver, fresh, probeEnv, rows } from "../harness.ts";
import { errorOf, LAB, outputOf, platformReaches, runLab } from "../lab.ts";
import { ended } from "../operate/operating.ts";
import { hear, openWaits, say } from "./waiting.ts";

/** Runs the chain of docs/authoring.md for an order, after `before` has prepared its wait. */
async function await14Days(before: (instanceId: string, order: string) => Promise<unknown>, signals: string[] = [OrderPaid.type]) {
  await probeEnv.DB.prepare("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, overdue_at INTEGER)").run();
  onTestFinished(async () => void (await probeEnv.DB.prepare("DROP TABLE IF EXISTS orders").run()));
  const order = fresh("order");
  await probeEnv.DB.prepare("INSERT INTO orders (id) VALUES (?1)").bind(order).run();
  const isSignalled = vi.spyOn(app.signalled, "has").mockImplementation((type) => [ProbeSignal.type, ...signals].includes(type));
  onTestFinished(() => isSignalled.mockRestore());
  const { instanceId } = await runLab(async (call) => {
    await before(call.instanceId, order);
    return awaitPayment.run({ ...call, payload: { order_id: order, email: "ada@example.com" } });
  });
  const status = await ended(instanceId);
  const [row] = await rows<{ overdue_at: number | null }>("SELECT overdue_at FROM orders WHERE id = ?1", order);
  return { instanceId, status, overdue: row?.overdue_at !== null };
}

it("a wait that times out throws to the code, which runs its fallback", async () => {
  const { instanceId, status, overdue } = await await14Days((id, order) =>
    probeEnv.DB.prepare(
      `INSERT INTO millrace_waits (instance_id, name, workflow, tenant_id, type, subject, event_type, since_at, asked_at, over_at)
       VALUES (?1, 'wait for payment', 'lab', 'acme', 'order.paid', ?2, 'signal-none', 0, 0, 1) ON CONFLICT DO NOTHING`,
    )
      .bind(id, order)
      .run(),
  );
  expect({ status, overdue }).toEqual({ status: "complete", overdue: true });
  expect(await outputOf(instanceId)).toEqual({ paid: false });
});

it("a wait that fails with another error is not treated as timed out: the run fails with that error", async () => {
  const { instanceId, status, overdue } = await await14Days(async () => undefined, []);
  expect({ status, overdue }).toEqual({ status: "errored", overdue: false });
  expect(await errorOf(instanceId)).toMatchObject({ step: "wait for payment", code: "config_invalid" });
});

// This test runs in full size only, because a local pause takes up to a minute: MILLRACE_FULL_SIZE=true npx vitest run --project engine
// test/engine/signals/wait-timeout.test.ts. The test wait-times.test.ts covers the decision: the platform's wait is over, and the row
// has time left.
it.runIf(IS_FULL_SIZE)("a run that the platform pauses in a wait does not time out, and accepts its event after the resume", async () => {
  let heard = "";
  const { instanceId, name } = await runLab(async ({ step, payload }) => {
    heard = await hear(step, "answer", payload.name);
  });
  await openWaits(instanceId, 1);
  const instance = await LAB.get(instanceId);
  await platformReaches(instanceId, "waiting");
  await instance.pause();
  await platformReaches(instanceId, "paused", "errored", "complete");
  expect(heard).toBe("");
  await instance.resume();
  await deliver("probe-events", [say(name, "yes")]);
  expect(await ended(instanceId)).toBe("complete");
  expect(heard).toBe("yes");
});
