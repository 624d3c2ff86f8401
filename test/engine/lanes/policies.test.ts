import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { LaneLetter } from "../../../packages/millrace/src/lanes/definition.ts";
import { blocking, holding, type LaneBody, letterTakers, parking, small, usual } from "../../probe/lanes.ts";
import { until } from "../harness.ts";
import { LabLane, type LaneBatch, numbers } from "./lab.ts";

/** A handler that retries the messages with these numbers until `heal` is called. */
function refusing(...poison: number[]) {
  const ill = new Set(poison);
  const handle = ({ messages }: LaneBatch) => {
    for (const message of messages) if (ill.has(message.body.n)) message.retry();
  };
  return { handle, heal: () => ill.clear() };
}

describe("Failing messages", () => {
  it.each([2, 3, 4, 6])(
    "the first message of a lane is retried although its retry time is between two reads of the clock, %i ms apart",
    async (apart) => {
      const lane = new LabLane(blocking, ({ messages }) => {
        if ((messages[0]?.attempts ?? 0) < 12) throw new Error("Not yet.");
      });
      let looks = 0;
      const now = Date.now.bind(Date);
      const clock = vi.spyOn(Date, "now").mockImplementation(() => now() + apart * ++looks);
      onTestFinished(() => clock.mockRestore());
      await lane.send(0);
      // Waits at most 8 seconds, because the alarm would deliver a lost message after 10 seconds.
      for (let turn = 0; turn < 400 && lane.calls.length < 12; turn++) await scheduler.wait(20);
      expect(lane.calls).toHaveLength(12);
    },
  );

  it("a failing message blocks a lane with `block`, and is retried beyond its retry limit", async () => {
    const { handle, heal } = refusing(1);
    const lane = new LabLane(blocking, handle);
    await lane.send(...numbers(4));
    const { head, why, depth } = await until(
      () => lane.object.look(),
      // During an attempt the lane is not blocked.
      (seen) => (seen.head?.failures ?? 0) > 6 && seen.why !== null,
    );
    expect({ depth, head }).toMatchObject({ depth: 3, head: { error: "The handler asked for another try." } });
    expect(why).toContain("asked for another try");
    expect(lane.calls.slice(0, 3)).toEqual([numbers(4), [1], [1]]);
    heal();
    await lane.is("empty");
    expect(lane.calls.at(-1)).toEqual([2, 3]);
  });

  it("a failing message of a lane with `park` becomes a dead letter with its body and last error, and the lane continues", async () => {
    const taken: LaneLetter<LaneBody>[] = [];
    const lane = new LabLane(parking, ({ messages }) => {
      if (messages.some(({ body }) => body.n === 1)) throw new Error("Number one is invalid.");
    });
    letterTakers.set(lane.key, (letter) => void taken.push(letter));
    await lane.client.sendBatch(numbers(4).map((n) => lane.message(n, { idempotencyKey: `key ${n}` })));
    await lane.is("empty");
    const [letter] = await until(
      () => Promise.resolve(taken),
      (seen) => seen.length > 0,
    );
    expect(letter).toMatchObject({
      lane: "parking",
      key: lane.key,
      tenant: null,
      body: { n: 1 },
      idempotencyKey: "key 1",
      reason: "exhausted",
    });
    expect(letter).toMatchObject({ error: "Number one is invalid.", attempts: 5 });
    // After the failed batch the messages are delivered one by one, and only the invalid message is counted as failed.
    expect(lane.calls).toEqual([numbers(4), [0], [1], [1], [1], [1], [2], [3]]);
  });

  it("a failing message stops a lane with `hold` until an operator resumes the lane, or retries or skips the message", async () => {
    const { handle, heal } = refusing(0, 1, 2);
    const lane = new LabLane(holding, handle);
    await lane.send(...numbers(4));
    expect(await lane.is("held")).toMatchObject({
      depth: 4,
      head: { failures: 4, nextAt: null },
      why: expect.stringContaining("waits for an operator"),
    });
    const tries = lane.calls.length;

    expect(await lane.object.retryHead()).toEqual({ done: true });
    await until(
      () => Promise.resolve(lane.calls.length),
      (calls) => calls === tries + 1,
    );
    expect((await lane.is("held")).head?.failures).toBe(5);

    expect(await lane.object.resume()).toEqual({ done: true });
    expect((await lane.is("held")).head?.failures).toBe(4);
    expect(lane.calls.length).toBe(tries + 5);

    expect(await lane.object.skipHead()).toEqual({ done: true });
    expect(await lane.is("held")).toMatchObject({ depth: 3, head: { failures: 4 } });
    heal();
    expect(await lane.object.resume()).toEqual({ done: true });
    await lane.is("empty");
    expect(lane.calls.at(-1)).toEqual([2, 3]);
  });

  it("a failing message of a lane is retried after one second, then twice as long each time, or after the delay of its error", async () => {
    const asked: (number | undefined)[] = [undefined, undefined, undefined, 100, undefined];
    let failedAt = 0;
    const lane = new LabLane(usual, ({ messages: [message] }) => {
      failedAt = Date.now();
      const delaySeconds = asked.shift();
      message?.retry(delaySeconds === undefined ? undefined : { delaySeconds });
    });
    await lane.send(0);
    const waits: { fromFailure: number; fromLook: number }[] = [];
    for (const failures of [1, 2, 3, 4, 5]) {
      const { head } = await until(
        () => lane.object.look(),
        (seen) => seen.head?.failures === failures,
      );
      const nextAt = head?.nextAt ?? 0;
      // The lane reads the clock between `failedAt` and this line.
      waits.push({ fromFailure: nextAt - failedAt, fromLook: nextAt - Date.now() });
      await lane.object.retryHead();
    }
    for (const [at, seconds] of [1, 2, 4, 100, 30].entries()) {
      expect(waits[at]?.fromFailure).toBeGreaterThanOrEqual(seconds * 1000);
      expect(waits[at]?.fromLook).toBeLessThanOrEqual(seconds * 1100);
    }
  });

  it("a failing message keeps its number of failures and its delay when the lane's object dies", async () => {
    let failures = 1;
    const lane = new LabLane(blocking, ({ messages: [message] }) => {
      if (failures-- > 0) message?.retry({ delaySeconds: 0.4 });
    });
    await lane.send(0, 1);
    const before = await lane.is("retrying");
    await lane.die();
    expect(await lane.object.look()).toMatchObject({ state: "retrying", head: { failures: 1, attempts: 1, nextAt: before.head?.nextAt } });
    await lane.is("empty");
    expect(lane.calls).toEqual([[0, 1], [0], [1]]);
  });

  it("the alarm delivers the messages of a lane whose object died, without any request", async () => {
    const lane = new LabLane(blocking, () => (lane.calls.length === 1 ? new Promise(() => undefined) : undefined));
    await lane.send(...numbers(3));
    await until(
      () => Promise.resolve(lane.calls.length),
      (calls) => calls === 1,
    );
    await lane.die();
    expect(await runDurableObjectAlarm(lane.stub)).toBe(true);
    await until(
      () => Promise.resolve(lane.calls.length),
      (calls) => calls === 3,
    );
    // After a restart the first message is delivered alone, because it may have killed the object.
    expect(lane.calls).toEqual([[0, 1, 2], [0], [1, 2]]);
  });

  it("a message that repeatedly kills the lane's object is counted as failed, and becomes a dead letter", async () => {
    const lane = new LabLane(parking, async ({ messages: [message] }, ctx) => {
      await scheduler.wait(5);
      if (message?.body.n === 0) ctx.abort("Out of memory.");
    });
    const errors: (string | null)[] = [];
    letterTakers.set(lane.key, ({ error }) => void errors.push(error));
    await lane.send(0, 1);
    await until(
      async () => {
        await runDurableObjectAlarm(lane.stub).catch(() => false);
        return errors.length + lane.calls.filter((call) => call[0] === 1).length;
      },
      (seen) => seen === 2,
    );
    expect(errors).toEqual(["The lane's object ended while the handler had this message."]);
    expect(lane.calls.length).toBe(6);
  });
});

describe("Dead letters", () => {
  it("a dead letter of a lane can be neither sent again nor removed while its handler runs", async () => {
    let [isOpen, handed] = [false, 0];
    const lane = new LabLane(parking, refusing(0).handle);
    letterTakers.set(lane.key, async () => {
      handed++;
      while (!isOpen) await scheduler.wait(5);
    });
    const [sent] = await lane.send(0);
    await until(async () => handed, Boolean);
    const refused = { done: false, reason: expect.stringContaining("being handed over") };
    expect(await lane.object.resendLetter(sent?.id ?? "")).toEqual(refused);
    expect(await lane.object.removeLetter(sent?.id ?? "")).toEqual(refused);
    isOpen = true;
    await until(
      () => lane.object.look(),
      ({ letters }) => letters === 0,
    );
    expect({ handed, depth: (await lane.object.look()).depth }).toEqual({ handed: 1, depth: 0 });
  });

  it("a dead letter of a lane is passed to its handler again after an error, while the lane continues", async () => {
    let refusals = 1;
    const taken: number[] = [];
    const lane = new LabLane(parking, refusing(0, 2).handle);
    letterTakers.set(lane.key, ({ body }) => {
      if (body.n === 0 && refusals-- > 0) throw new Error("The dead-letter handler fails.");
      taken.push(body.n);
    });
    await lane.send(...numbers(4));
    const seen = await until(
      () => lane.object.letters(),
      (letters) => letters.some(({ tries }) => tries === 1),
    );
    expect(seen).toMatchObject([{ body: { n: 0 }, handOffError: "The dead-letter handler fails." }]);
    await lane.is("empty");
    await until(
      () => lane.object.look(),
      ({ letters }) => letters === 0,
    );
    expect(taken.toSorted()).toEqual([0, 2]);
  });

  it("a dead letter of a lane without a dead-letter handler is kept until an operator removes it or sends it again", async () => {
    const { handle, heal } = refusing(0, 1);
    const lane = new LabLane(small, handle);
    await lane.send(...numbers(3));
    expect(await lane.is("empty")).toMatchObject({ letters: 2 });
    const [first, second] = await lane.object.letters();
    expect(await lane.object.letters({ after: first?.id })).toEqual([second]);
    heal();
    expect(await lane.object.resendLetter(first?.id ?? "")).toEqual({ done: true });
    expect(await lane.object.removeLetter(second?.id ?? "")).toEqual({ done: true });
    expect(await lane.object.removeLetter(second?.id ?? "")).toMatchObject({ done: false });
    expect(await lane.is("empty")).toMatchObject({ letters: 0 });
    expect(lane.calls.at(-1)).toEqual([0]);
  });
});

describe("Operators", () => {
  it("an operator can pause a lane, list its waiting messages page by page, and resume it, also after an eviction", async () => {
    const lane = new LabLane(blocking);
    expect(await lane.object.pause()).toEqual({ done: true });
    await lane.client.sendBatch(numbers(150).map((n) => lane.message(n, n === 1 ? { idempotencyKey: "a" } : {})));
    await evictDurableObject(lane.stub);
    await runDurableObjectAlarm(lane.stub);
    expect(await lane.object.look()).toMatchObject({ state: "paused", why: "An operator has paused the lane.", depth: 150 });
    const page = await lane.object.messages();
    const rest = await lane.object.messages({ after: page.at(-1)?.sequence ?? 0 });
    expect([...page, ...rest].map(({ body }) => (body as LaneBody).n)).toEqual(numbers(150));
    expect(page[1]).toMatchObject({ idempotencyKey: "a", attempts: 0, dueAt: null });
    expect(lane.calls).toEqual([]);
    expect(await lane.object.retryHead()).toMatchObject({ done: false });
    expect(await lane.object.resume()).toEqual({ done: true });
    await lane.is("empty");
    expect(lane.calls.flat()).toEqual(numbers(150));
  });

  it("an operator can skip only the first message of a lane, and not while the handler processes it", async () => {
    let released = false;
    const lane = new LabLane(small, async () => {
      while (!released) await scheduler.wait(5);
    });
    await lane.send(0);
    await until(
      () => Promise.resolve(lane.calls.length),
      (calls) => calls === 1,
    );
    expect(await lane.object.skipHead()).toMatchObject({ done: false, reason: expect.stringContaining("is processing the head") });
    await lane.object.pause();
    released = true;
    await until(
      () => lane.object.look(),
      ({ depth }) => depth === 0,
    );
    const [one, two] = await lane.send(1, 2);
    expect(await lane.object.skipHead(two?.id)).toMatchObject({ done: false, reason: expect.stringContaining("head has changed") });
    expect(await lane.object.skipHead(one?.id)).toEqual({ done: true });
    expect(await lane.object.letters()).toMatchObject([{ id: one?.id, reason: "skipped", attempts: 0, error: null }]);
    await lane.object.resume();
    await lane.is("empty");
    expect(lane.calls).toEqual([[0], [2]]);
  });

  it("an operator's action on an empty lane is refused", async () => {
    const { object } = new LabLane(blocking);
    expect(await object.look()).toMatchObject({ state: "empty", depth: 0, head: null, letters: 0 });
    for (const answer of [await object.resume(), await object.retryHead(), await object.skipHead(), await object.resendLetter("a")]) {
      expect(answer).toMatchObject({ done: false });
    }
    expect([await object.messages(), await object.letters()]).toEqual([[], []]);
    expect(await object.erase()).toBe(false);
  });
});
