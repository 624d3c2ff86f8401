import { publishEvents } from "millrace";
import { describe, expect, it, onTestFinished } from "vitest";
import { acceptCommand } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import { deaf, heard, paired, parked, told } from "../../probe/turns.ts";
import { app } from "../../probe/worker.ts";
import { until } from "../../until.ts";
import { fresh, probeEnv, reaches, rows } from "../harness.ts";
import { runLab } from "../lab.ts";
import { TurnKey } from "./turning.ts";

describe("Workflow lanes", () => {
  it("a lane starts the next instance of a key after the earlier one has ended, while other keys continue", async () => {
    const [one, other] = [new TurnKey(parked), new TurnKey(parked)];
    const letGo = one.gate("a");
    await one.askAll("a", "b", "c");
    await other.askAll("a", "b");
    expect(await other.seenBy("b ends")).toEqual(["a begins", "a ends", "b begins", "b ends"]);
    expect(await one.seen()).toEqual(["a begins"]);
    letGo();
    expect(await one.seenBy("c ends")).toEqual(["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]);
  });

  it("a lane runs as many instances of a key concurrently as the option `concurrency` allows", async () => {
    const two = new TurnKey(paired);
    const [a, b] = [two.gate("a"), two.gate("b")];
    await two.askAll("a", "b", "c");
    await two.seenBy("b begins");
    const standing = await two.stands(({ state }) => state === "waiting");
    expect(standing).toMatchObject({ depth: 1, ahead: [{ instance_id: two.id("a") }, { instance_id: two.id("b") }] });
    expect(await two.seen()).not.toContain("c begins");
    b();
    await two.seenBy("c ends");
    expect(await two.seen()).not.toContain("a ends");
    a();
    await two.seenBy("a ends");
  });

  it("a lane gets the messages of a run in the order of the steps, and of the list of each step", async () => {
    const key = new TurnKey(parked);
    await runLab(async ({ step }) => {
      await step.commit("first", () => ({ emit: [parked.command.from(key.payload("a")), parked.command.from(key.payload("b"))] }));
      await step.commit("second", () => ({ emit: [parked.command.from(key.payload("c"))] }));
    });
    const seen = await key.seenBy("c ends");
    expect(seen).toEqual(["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]);
    const left = () => rows<{ id: string }>("SELECT id FROM millrace_outbox WHERE body->>'subject' = ?1", key.key);
    expect(await until(left, (rest) => rest.length === 0)).toEqual([]);
  });

  it("a lane starts commands for a subject with surrogate pairs, up to the maximum length of an object name", async () => {
    const payload = { key: fresh("k").padEnd(30, "x") + "😀".repeat(240), name: "long" };
    const { instanceId } = await acceptCommand(probeEnv, app, { tenantId: "acme", source: "test" }, { type: parked.command.type, payload });
    expect(await reaches(instanceId, "complete")).toBe("complete");
  });

  it.each(["鍵".repeat(400), ".."])(
    "a step that emits a lane command for the invalid subject %.5s fails with the reason, and emits nothing",
    async (subject) => {
      const { instanceId } = await runLab(({ step }) =>
        step.commit("emits", () => ({ emit: [parked.command.from({ key: subject, name: "lost" })] }), { retries: { limit: 0, delay: 10 } }),
      );
      expect(await reaches(instanceId, "errored")).toBe("errored");
      const [row] = await rows<{ error: string }>("SELECT error FROM millrace_instances WHERE id = ?1", instanceId);
      expect(row?.error).toContain("subject");
      expect(await rows("SELECT id FROM millrace_outbox WHERE body->>'subject' = ?1", subject)).toEqual([]);
    },
  );

  it("equal lane keys of two tenants are separate", async () => {
    const mine = new TurnKey(parked);
    const theirs = new TurnKey(parked, "globex", mine.key);
    const letGo = mine.gate("a");
    await mine.askAll("a", "b");
    await mine.seenBy("a begins");
    await theirs.ask("z");
    await theirs.seenBy("z ends");
    expect(await theirs.stands(({ ahead }) => ahead.length === 0)).toMatchObject({ depth: 0 });
    expect(await mine.stands(() => true)).toMatchObject({ depth: 1 });
    letGo();
    await mine.seenBy("b ends");
  });
});

describe("Event lanes", () => {
  it("a lane of events delivers no later event before an event whose route fails", async () => {
    const key = fresh("told");
    deaf.set(key, () => new Error("Nobody listens."));
    const state = (name: string) => ({ type: told.event.type, payload: { key, name }, idempotencyKey: `${key} ${name}` });
    await publishEvents(probeEnv, app, { tenantId: "acme", source: "test" }, ["a", "b", "c"].map(state));
    const lane = new TurnKey({ ...parked, queue: told.queue }, "acme", key);
    expect(await lane.stands(({ head }) => (head?.attempts ?? 0) > 2)).toMatchObject({
      depth: 3,
      head: { type: "turn.told", error: "Nobody listens." },
    });
    deaf.delete(key);
    const names = async () => heard.filter((one) => one.key === key).map(({ name }) => name);
    expect(await until(names, (all) => all.length === 3)).toEqual(["a", "b", "c"]);
  });
});

it("the example of docs/turns.md changes a customer's address in the order of the requests", async () => {
  await probeEnv.DB.exec("CREATE TABLE customers (id TEXT PRIMARY KEY, email TEXT)");
  onTestFinished(async () => void (await probeEnv.DB.exec("DROP TABLE customers")));
  const customer = fresh("customer");
  const moved = async (n: number) => {
    const payload = { customer, change: `${customer} ${n}`, email: `${n}@example.com` };
    return (await acceptCommand(probeEnv, app, { tenantId: "acme", source: "test" }, { type: "address.change", payload })).instanceId;
  };
  for (const n of [1, 2]) await moved(n);
  expect(await reaches(await moved(3), "complete")).toBe("complete");
  expect(await rows("SELECT email FROM customers WHERE id = ?1", customer)).toEqual([{ email: "3@example.com" }]);
});
