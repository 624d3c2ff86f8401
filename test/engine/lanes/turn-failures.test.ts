import { MillraceError, notRetryable, publishEvents } from "millrace";
import { instances, lanes } from "millrace/operate";
import { Recorder } from "millrace/worker";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { blocked, cried, deaf, heldUp, parked, type told, whispered } from "../../probe/turns.ts";
import { app } from "../../probe/worker.ts";
import { dieAt, failAt, fresh, keeperRound, probeEnv, rows, until } from "../harness.ts";
import { TurnKey } from "./turning.ts";

const why = { reason: "A test." };

describe("Failed instances", () => {
  it("a failed instance blocks a lane with `block` until its retry succeeds", async () => {
    const key = new TurnKey(blocked);
    const mend = key.breaks("a");
    await key.askAll("a", "b");
    const standing = await key.stands(({ ahead }) => ahead[0]?.failed != null);
    expect(standing).toMatchObject({ state: "waiting", why: expect.stringContaining(key.id("a")), depth: 1 });
    mend();
    await key.reaches("a", "errored");
    await instances.act(probeEnv, key.by, "retry", key.id("a"), why);
    expect(await key.seenBy("b ends")).toEqual(["a begins", "a ends", "b begins", "b ends"]);
  });

  it("a failed instance no longer blocks a lane with `block` after its undo", async () => {
    const key = new TurnKey(blocked);
    key.breaks("a");
    await key.askAll("a", "b");
    await key.reaches("a", "errored");
    await instances.act(probeEnv, key.by, "undo", key.id("a"), { reason: "A test." });
    await key.seenBy("b ends");
    expect(await key.reaches("a", "terminated")).toBe("terminated");
  });

  it("a failed instance blocks a lane with `block` until an operator skips it, although its row is deleted", async () => {
    const key = new TurnKey(blocked);
    key.breaks("a");
    await key.ask("a");
    await key.reaches("a", "errored");
    await key.stands(({ ahead }) => ahead[0]?.failed != null);
    await rows("DELETE FROM millrace_instances WHERE id = ?1", key.id("a"));
    await key.ask("b");
    await key.age(20);
    expect(await key.stands(({ state }) => state === "waiting")).toMatchObject({ depth: 1, ahead: [{ instance_id: key.id("a") }] });
    expect(await key.seen()).toEqual(["a begins"]);
    await lanes.steer(probeEnv, key.by, key.name, { verb: "skip_head", ...why });
    await key.seenBy("b ends");
  });

  it("a lane with `block` continues after an operator has skipped the failed instance", async () => {
    const key = new TurnKey(blocked);
    key.breaks("a");
    await key.askAll("a", "b");
    await key.stands(({ ahead }) => ahead[0]?.failed != null);
    await key.reaches("a", "errored");
    const retry = lanes.steer(probeEnv, key.by, key.name, { verb: "retry_head", ...why });
    await expect(retry).rejects.toMatchObject({ code: "invalid_transition", message: expect.stringContaining(key.id("a")) });
    const other = lanes.steer(probeEnv, key.by, key.name, { verb: "skip_head", id: key.id("z"), ...why });
    await expect(other).rejects.toMatchObject({ code: "invalid_transition" });
    expect(await lanes.steer(probeEnv, key.by, key.name, { verb: "skip_head", ...why })).toMatchObject({ instance_ids: [key.id("a")] });
    expect(await key.seenBy("b ends")).toEqual(["a begins", "b begins", "b ends"]);
  });

  it("a lane with `park` continues after a failed instance, and a retry of that instance runs out of order", async () => {
    const key = new TurnKey(parked);
    const mend = key.breaks("a");
    const letGo = key.gate("b");
    await key.askAll("a", "b");
    await key.seenBy("b begins");
    mend();
    await key.reaches("a", "errored");
    await instances.act(probeEnv, key.by, "retry", key.id("a"), why);
    await key.seenBy("a ends");
    letGo();
    expect(await key.seenBy("b ends")).toEqual(["a begins", "b begins", "a ends", "b ends"]);
  });

  it("a failed instance stops a lane with `hold` until an operator resumes the lane, also after a successful retry", async () => {
    const key = new TurnKey(heldUp);
    const mend = key.breaks("a");
    await key.askAll("a", "b");
    expect(await key.stands(({ state }) => state === "held")).toMatchObject({ why: expect.stringContaining(key.id("a")), depth: 1 });
    mend();
    await key.reaches("a", "errored");
    await instances.act(probeEnv, key.by, "retry", key.id("a"), why);
    await key.seenBy("a ends");
    expect(await key.stands(({ ahead }) => ahead.length === 0)).toMatchObject({ state: "held", depth: 1 });
    await lanes.steer(probeEnv, key.by, key.name, { verb: "resume", ...why });
    expect(await key.seenBy("b ends")).toEqual(["a begins", "a ends", "b begins", "b ends"]);
  });
});

describe("Closed instances", () => {
  it("a failed instance that an operator closes no longer stops a lane with `block` or `hold`, as its dry run shows", async () => {
    for (const lane of [blocked, heldUp]) {
      const key = new TurnKey(lane);
      key.breaks("a");
      await key.askAll("a", "b");
      await key.stands(({ ahead }) => ahead[0]?.failed != null);
      await key.reaches("a", "errored");
      expect((await instances.plan(probeEnv, key.by, "close", key.id("a"), {})).consequence).toContain(
        `If it blocks its lane (${key.name.lane} · ${key.key})`,
      );
      await instances.act(probeEnv, key.by, "close", key.id("a"), { reason: "A test." });
      expect(await key.seenBy("b ends", 5000)).toEqual(["a begins", "b begins", "b ends"]);
    }
  });

  it("a lane with `hold` is held after the database has the end of its failed instance, and continues after the close", async () => {
    const key = new TurnKey(heldUp);
    const [ended, written] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const { finish } = Recorder.prototype;
    const spy = vi.spyOn(Recorder.prototype, "finish").mockImplementation(async function (this: Recorder, ...end) {
      if (end[0].id === key.id("a")) {
        ended.resolve();
        await written.promise;
      }
      return finish.apply(this, end);
    });
    onTestFinished(() => spy.mockRestore());
    key.breaks("a");
    await key.askAll("a", "b");
    await ended.promise;
    expect(await key.stands(({ state }) => state === "waiting")).toMatchObject({ ahead: [{ failed: null }] });
    written.resolve();
    expect(await key.stands(({ state }) => state === "held")).toMatchObject({ ahead: [{ failed: expect.any(String) }] });
    await key.reaches("a", "errored");
    await instances.act(probeEnv, key.by, "close", key.id("a"), { reason: "A test." });
    expect(await key.seenBy("b ends")).toEqual(["a begins", "b begins", "b ends"]);
  });

  it("a lane continues after the close of its failed instance, also when the process died before it notified the lane", async () => {
    const [told, looked] = [new TurnKey(heldUp), new TurnKey(heldUp)];
    for (const key of [told, looked]) {
      key.breaks("a");
      await key.askAll("a", "b");
      await key.stands(({ state }) => state === "held");
      await key.reaches("a", "errored");
      dieAt("close committed, not applied");
      await expect(instances.act(probeEnv, key.by, "close", key.id("a"), { reason: "A test." })).rejects.toThrow("Died");
      expect(await key.seen()).toEqual(["a begins"]);
    }
    await looked.stands(({ state }) => state !== "held");
    await looked.seenBy("b ends");
    await until(
      async () => {
        await keeperRound();
        return told.seen();
      },
      (seen) => seen.includes("b ends"),
    );
  });

  it("a lane with `hold` finds a lost failure of a retried run, and continues after the close of its instance", async () => {
    const [asked, unasked] = [new TurnKey(heldUp), new TurnKey(heldUp)];
    for (const key of [asked, unasked]) {
      key.breaks("a");
      await key.askAll("a", "b");
      await key.stands(({ state }) => state === "held");
      await key.reaches("a", "errored");
      const failsOn = Promise.withResolvers<never>();
      key.run("a", ({ step }) => step.read("stands", () => failsOn.promise, { retries: { limit: 0, delay: 10 } }));
      await instances.act(probeEnv, key.by, "retry", key.id("a"), why);
      await key.stands(({ state, ahead }) => state === "held" && ahead[0]?.failed === null);
      const untold = dieAt("L12 ended, lane not notified", key.id("a"));
      failsOn.reject(notRetryable("It fails again."));
      await key.reaches("a", "errored");
      expect(untold.died()).toBe(true);
    }
    const fails = { state: "held", ahead: [{ failed: expect.any(String) }] };
    expect(await asked.stands(({ ahead }) => ahead[0]?.failed != null)).toMatchObject(fails);
    await unasked.age(20);
    const noted = await until(
      () => rows<{ failed: string | null }>("SELECT ahead->>'$[0].failed' AS failed FROM millrace_lanes WHERE key = ?1", unasked.key),
      ([row]) => row?.failed != null,
      15_000,
    );
    expect(noted).toMatchObject([{ failed: expect.any(String) }]);
    for (const key of [asked, unasked]) {
      await instances.act(probeEnv, key.by, "close", key.id("a"), { reason: "A test." });
      expect(await key.seenBy("b ends")).toEqual(["a begins", "b begins", "b ends"]);
    }
  });

  it("the close of a failed instance does not resume a lane that another failed instance has stopped", async () => {
    const key = new TurnKey(heldUp);
    const mend = key.breaks("b");
    key.breaks("a");
    await key.askAll("a", "b", "c");
    await key.stands(({ state }) => state === "held");
    await key.reaches("a", "errored");
    await lanes.steer(probeEnv, key.by, key.name, { verb: "resume", ...why });
    await key.stands(({ state, ahead }) => state === "held" && ahead[0]?.instance_id === key.id("b"));
    await instances.act(probeEnv, key.by, "close", key.id("a"), { reason: "A test." });
    expect(await key.stands(() => true)).toMatchObject({ state: "held", depth: 1 });
    mend();
  });
});

describe("Sensitive fields", () => {
  it("sensitive fields are hidden in the reason of a stopped lane, for a failed run and for a failed event", async () => {
    const secret = fresh("secret");
    const run = new TurnKey(heldUp);
    const no = notRetryable(`No mailbox ${secret}.`);
    run.run("a", ({ step }) => step.read("mail", () => Promise.reject(no)));
    await run.ask("a", { secret });
    const message = new TurnKey({ ...parked, queue: cried.queue }, "acme", fresh("told"));
    deaf.set(message.key, () => new Error(`Nobody tells ${secret}.`));
    const request = { type: cried.event.type, payload: { key: message.key, name: "a", secret }, idempotencyKey: message.key };
    await publishEvents(probeEnv, app, { tenantId: "acme", source: "test" }, [request]);
    for (const [lane, said] of [
      [run, "No mailbox [redacted]."],
      [message, "Nobody tells [redacted]."],
    ] as const) {
      const standing = await lane.stands(({ state }) => state === "held");
      expect(JSON.stringify(standing)).toContain(said);
      const noted = await until(
        () => rows("SELECT * FROM millrace_lanes WHERE key = ?1", lane.key),
        (found) => found.length > 0,
      );
      expect(JSON.stringify([standing, noted])).not.toContain(secret);
      await lanes.steer(probeEnv, lane.by, lane.name, lane === run ? { verb: "resume", ...why } : { verb: "skip_head", ...why });
    }
  });
});

describe("Invalid messages", () => {
  it("an invalid message of a lane with `park` becomes a dead letter without retries", async () => {
    const key = new TurnKey(parked);
    await key.poison();
    await key.ask("b");
    await key.seenBy("b ends");
    expect(await key.letters()).toEqual([{ reason: "invalid_payload", queue: "lane:parked" }]);
  });

  it("an invalid message blocks a lane with `block` until an operator skips it, and then becomes a dead letter", async () => {
    const key = new TurnKey(blocked);
    await key.poison();
    await key.ask("b");
    const standing = await key.stands(({ head }) => (head?.attempts ?? 0) > 1);
    expect(standing).toMatchObject({ depth: 2, head: { error: expect.stringContaining("invalid_payload") } });
    // While the handler processes the head, a skip is refused.
    const skipped = await until(
      () => lanes.steer(probeEnv, key.by, key.name, { verb: "skip_head", ...why }).catch(() => undefined),
      (answer) => answer !== undefined,
    );
    expect(skipped?.message_id).toBe(standing.head?.id);
    await key.seenBy("b ends");
    expect(await key.letters()).toEqual([{ reason: "skipped", queue: "lane:blocked" }]);
  });

  it("an invalid message stops a lane with `hold`", async () => {
    const key = new TurnKey(heldUp);
    await key.poison();
    await key.ask("b");
    expect(await key.stands(({ state }) => state === "held")).toMatchObject({ depth: 2, why: expect.stringContaining("invalid_payload") });
    await lanes.steer(probeEnv, key.by, key.name, { verb: "skip_head", ...why });
    await key.seenBy("b ends");
  });
});

describe("Event tries", () => {
  /** Publishes an event whose route throws the error of `fails`. Returns its lane and the number of tries. */
  async function state({ event, queue }: typeof told, fails: (tries: number) => Error | undefined) {
    const key = new TurnKey({ ...parked, queue }, "acme", fresh("told"));
    let tries = 0;
    deaf.set(key.key, () => fails(++tries));
    const request = { type: event.type, payload: { key: key.key, name: "a" }, idempotencyKey: key.key };
    await publishEvents(probeEnv, app, { tenantId: "acme", source: "test" }, [request]);
    return { key, tries: () => tries };
  }

  it("an event in a lane uses no try while the database is unavailable", async () => {
    const away = () => {
      failAt("signal stored, instance not notified", new MillraceError("unavailable", "The database is unavailable."));
      return undefined;
    };
    const { key, tries } = await state(whispered, (count) => (count <= 4 ? away() : new Error("Nobody listens.")));
    expect(await key.letters()).toMatchObject([{ queue: "lane:whispered" }]);
    expect(tries()).toBe(4 + 2);
  });

  it("an error `unavailable` of a route's code uses up the tries of an event in its lane", async () => {
    const { key, tries } = await state(whispered, () => new MillraceError("unavailable", "The receiver is overloaded."));
    expect(await key.letters()).toMatchObject([{ queue: "lane:whispered" }]);
    expect(tries()).toBe(2);
  });

  it("an event in a lane with `hold` gets all its tries again after a resume, and one try after an operator's retry", async () => {
    const { key, tries } = await state(cried, () => new Error("Nobody listens."));
    await key.stands(({ state }) => state === "held");
    expect(tries()).toBe(2);
    await lanes.steer(probeEnv, key.by, key.name, { verb: "retry_head", ...why });
    await key.stands(({ state, head }) => state === "held" && head?.attempts === 3);
    expect(tries()).toBe(3);
    await lanes.steer(probeEnv, key.by, key.name, { verb: "resume", ...why });
    await key.stands(({ state, head }) => state === "held" && head?.attempts === 5);
    expect(tries()).toBe(5);
    await lanes.steer(probeEnv, key.by, key.name, { verb: "skip_head", ...why });
  });
});
