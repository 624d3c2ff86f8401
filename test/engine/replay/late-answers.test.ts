import { notRetryable } from "millrace";
import { approvals, effects } from "millrace/operate";
import { Recorder } from "millrace/worker";
import { describe, expect, it, onTestFinished } from "vitest";
import { approvalId } from "../../../packages/millrace/src/signals/approval.ts";
import { operator, probeEnv, reaches, rows, statusOf, until } from "../harness.ts";
import { errorOf, held, platformReaches, runLab } from "../lab.ts";
import { effect, ended, ONCE, resolve, retry, stateOf, undo } from "../operate/operating.ts";

const errs =
  (message: string, mended: () => boolean = () => false) =>
  async () => {
    if (!mended()) throw new Error(message);
    return 1;
  };

describe("A failure of an earlier run that ends a later run", () => {
  it.concurrent("I17 a retry that repeats one of two failed branches reports the failure of the other branch", async () => {
    let mended = false;
    let heard = false;
    const { instanceId } = await runLab(({ step }) => {
      const first = async () => {
        await held(() => heard);
        throw new Error("The first step is broken.");
      };
      const second = async () => {
        if (mended) return 1;
        throw new Error("The second step is broken.");
      };
      const failing = step.read("second", second, ONCE).finally(() => {
        heard = true;
      });
      return Promise.all([step.read("first", first, ONCE), failing]);
    });
    expect(await ended(instanceId)).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({ step: "second" });
    mended = true;
    await retry(instanceId);
    expect(await ended(instanceId)).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({ step: "first", message: "The first step is broken." });
  });

  it.concurrent("I17 a retry reports the code's error when its cause is a failure of the earlier run", async () => {
    let mended = false;
    const { instanceId } = await runLab(async ({ step }) => {
      const cause = await step.read("rates", errs("No rates."), ONCE).catch((error: unknown) => error);
      await step.read(
        "ship",
        errs("Nobody ships.", () => mended),
        ONCE,
      );
      throw new Error("No order without rates.", { cause });
    });
    expect(await ended(instanceId)).toBe("errored");
    mended = true;
    await retry(instanceId);
    expect(await ended(instanceId)).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({ step: "rates", message: "No order without rates. (No rates.)" });
  });
});

describe("An unknown outcome", () => {
  it.concurrent("W02 W10 a once effect that hangs beyond its last attempt is in doubt, also when the code catches the timeout; a late success settles it", async () => {
    let released = false;
    const { instanceId } = await runLab(async ({ step }) => {
      const mail = async () => {
        while (!released) await scheduler.wait(20);
        return "sent";
      };
      await step.effect("mail", effect("once", mail, { timeout: 10 }), null).catch(() => undefined);
      await step.commit("note", () => ({}));
    });
    expect(await ended(instanceId)).toBe("complete");
    const { items: doubts } = await effects.list(probeEnv, operator, { state: "in_doubt", limit: 200 });
    expect(doubts.filter((one) => one.instance_id === instanceId)).toMatchObject([{ step: "mail" }]);
    released = true;
    expect(
      await until(
        () => stateOf(instanceId, "mail"),
        (state) => state === "done",
      ),
    ).toBe("done");
  });

  it.concurrent.each([
    [{ verb: "confirm", output: "sent" }, 1],
    [{ verb: "reject" }, 2],
    [{ verb: "retry_anyway" }, 2],
  ] as const)(
    "W17 an operator's answer %o to an unawaited effect in doubt is applied while its run waits for another effect",
    async (answer, times) => {
      let sent = 0;
      let released = false;
      const { instanceId } = await runLab(async ({ step, instanceId: id }) => {
        const mail = async () => {
          if (++sent === 1) throw new Error("Lost.");
          return "sent";
        };
        step.effect("mail", effect("once", mail), null).catch(() => undefined);
        step
          .effect(
            "slow",
            effect("keyed", () => held(() => released)),
            null,
          )
          .catch(() => undefined);
        await step.read("wait for the doubt", () => held(async () => (await stateOf(id, "mail")) === "in_doubt"));
      });
      await until(
        () => stateOf(instanceId, "mail"),
        (state) => state === "in_doubt",
      );
      await scheduler.wait(300);
      await resolve(instanceId, "mail", answer);
      expect(
        await until(
          () => stateOf(instanceId, "mail"),
          (state) => state === "done",
        ),
      ).toBe("done");
      released = true;
      expect(await ended(instanceId)).toBe("complete");
      expect(sent).toBe(times);
    },
  );

  it.concurrent("W17 a retry uses the second output when an operator has confirmed an effect twice", async () => {
    const shipped: unknown[] = [];
    const { instanceId } = await runLab(async ({ step }) => {
      const order = await step.effect("order", effect("once", errs("No answer.")), null);
      const ship = effect("keyed", async ({ input }) =>
        input === "order-2" ? shipped.push(input) : Promise.reject(notRetryable("No such order.")),
      );
      await step.effect("ship", ship, order);
    });
    await reaches(instanceId, "in_doubt");
    await resolve(instanceId, "order", { verb: "confirm", output: "order-1" });
    expect(await ended(instanceId)).toBe("errored");
    await resolve(instanceId, "order", { verb: "confirm", output: "order-2" });
    await retry(instanceId);
    expect(await ended(instanceId)).toBe("complete");
    expect(shipped).toEqual(["order-2"]);
  });
});

// These cases run one after the other, because each loses the database's next answer about an action.
it.each(["retry", "undo", "confirm", "approve"] as const)(
  "W04 an operator's %s with a lost database answer is reported as accepted, and executed once",
  async (verb) => {
    let mended = false;
    const { instanceId } = await runLab(async ({ step }) => {
      await step.effect(
        "a",
        effect("keyed", async () => 1, { undo: effect("natural", async () => 1) as never }),
        null,
      );
      if (verb === "confirm") await step.effect("mail", effect("once", errs("Lost.")), null);
      if (verb === "approve") await step.approve("agree", { question: "Yes?", timeout: "1 hour" });
      if (verb === "retry")
        await step.read(
          "fails",
          errs("Broken.", () => mended),
          ONCE,
        );
    });
    const before = { retry: "errored", undo: "complete", confirm: "in_doubt", approve: "waiting" }[verb];
    expect(await reaches(instanceId, before)).toBe(before);
    if (verb === "retry" || verb === "undo") await platformReaches(instanceId, before);
    mended = true;
    const lost = loseAnswerOf(/INSERT INTO millrace_actions/);
    const act = {
      retry: () => retry(instanceId),
      undo: () => undo(instanceId),
      confirm: () => resolve(instanceId, "mail", { verb: "confirm", output: 1 }),
      approve: () => approvals.decide(probeEnv, operator, approvalId(instanceId, "agree"), "approve", "yes"),
    };
    expect(await act[verb]()).toHaveProperty("action_id");
    expect(lost()).toBe(true);
    const after = verb === "undo" ? "terminated" : "complete";
    expect(
      await until(
        () => statusOf(instanceId),
        (status) => status === after,
      ),
    ).toBe(after);
    expect(await rows("SELECT result FROM millrace_actions WHERE instance_id = ?1", instanceId)).toEqual([{ result: "applied" }]);
  },
);

/** Lets the database commit the next batch that contains such a statement, and loses the answer. */
function loseAnswerOf(statement: RegExp): () => boolean {
  const database = Object.getPrototypeOf(probeEnv.DB) as D1Database;
  const own = database.batch;
  let lost = false;
  database.batch = async function batch(this: D1Database, statements: (D1PreparedStatement & { statement?: string })[]) {
    const answer = await own.call(this, statements);
    if (!statements.some((one) => statement.test(one.statement ?? ""))) return answer;
    lost = true;
    database.batch = own;
    throw new Error("D1_ERROR: Network connection lost.");
  } as typeof own;
  return () => lost;
}

it("W02 W17 a once effect that could not be recorded at its last attempt is in doubt, although the code catches the error", async () => {
  const { record } = Recorder.prototype;
  onTestFinished(() => {
    Recorder.prototype.record = record;
  });
  let sent = 0;
  Recorder.prototype.record = function (...args: Parameters<typeof record>) {
    if (args[0].key.step !== "mail in vain") return record.apply(this, args);
    throw new Error("Network connection lost.");
  };
  const { instanceId } = await runLab(async ({ step }) => {
    const mail = effect("once", async () => ++sent, { timeout: 20_000 });
    await step.effect("mail in vain", mail, {}).catch(() => step.commit("instead", () => ({})));
  });
  expect(await reaches(instanceId, "complete", "in_doubt", "errored")).not.toBe("errored");
  expect([
    sent,
    await until(
      () => stateOf(instanceId, "mail in vain"),
      (state) => state === "in_doubt",
    ),
  ]).toEqual([1, "in_doubt"]);
});
