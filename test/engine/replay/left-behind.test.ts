import { defineStep, errors, notRetryable, upstreamRefused } from "millrace";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { recorderOf } from "../../../packages/millrace/src/recorder/client.ts";
import { ProbeSignal } from "../../probe/messages.ts";
import { fresh, probeEnv, reaches, rows } from "../harness.ts";
import { errorOf, held, LAB, outputOf, platformOf, runLab } from "../lab.ts";
import { effect, ended, failed, ONCE, resolve, retry, stateOf } from "../operate/operating.ts";

describe("A retried run with state of earlier runs", () => {
  it.concurrent("W25 a third run uses the failures that the first run had caught, although the second run failed before it reached them", async () => {
    const world = { away: false, card: false, answers: false, did: [] as string[] };
    const { instanceId } = await runLab(async ({ step }) => {
      await step.read("config", async () => (world.away ? Promise.reject(new Error("Away.")) : 1), ONCE);
      const charge = effect("once", async () => (world.card ? world.did.push("card") : Promise.reject(upstreamRefused("No."))));
      const invoice = effect("keyed", async () => (world.answers ? world.did.push("invoice") : Promise.reject(new Error("Lost."))));
      await step.effect("charge", charge, {}).catch(() => step.effect("invoice", invoice, {}));
    });
    await failed(instanceId);
    Object.assign(world, { away: true, card: true, answers: true });
    await retry(instanceId, { from: "config" });
    await failed(instanceId);
    world.away = false;
    await retry(instanceId);
    expect(await ended(instanceId)).toBe("complete");
    expect(world.did).toEqual(["invoice"]);
  });

  it.concurrent("W25 a retry continues the attempts of a branch with a failure that no code has received", async () => {
    const state = { broken: true, tries: 0 };
    const send = defineStep<unknown, unknown>({
      effect: "keyed",
      timeout: 500,
      retries: { limit: 1, delay: 1500, backoff: "constant" },
      run: async () => (++state.tries === 1 ? Promise.reject(new Error("Once only.")) : "sent"),
    });
    const { instanceId } = await runLab(async ({ step }) => {
      const mail = step.effect("send", send, {}).catch(() => step.commit("give up", () => ({ output: "gave up" })));
      const check = async () => {
        await step.read("tried once", () => held(() => state.tries === 1));
        await step.read("check", async () => (state.broken ? Promise.reject(new Error("Broken.")) : 1), ONCE);
      };
      return (await Promise.all([mail, check()]))[0];
    });
    await failed(instanceId);
    // After this time the platform has aborted the unanswered step and recorded that.
    await scheduler.wait(3500);
    state.broken = false;
    await retry(instanceId);
    expect(await ended(instanceId)).toBe("complete");
    expect([await outputOf(instanceId), state.tries]).toEqual(["sent", 2]);
  });

  it.concurrent("W25 a retry repeats a branch that failed at the end of the earlier run, because no code has received its failure", async () => {
    const state = { broken: true, over: false };
    const { instanceId } = await runLab(async ({ step }) => {
      const slow = effect("keyed", async () => {
        await held(() => state.over || !state.broken);
        if (state.broken) throw notRetryable("Slow, and broken.");
        return "slow";
      });
      const first = step.read("first", async () => (state.broken ? Promise.reject(notRetryable("Broken.")) : 1), ONCE);
      const [, heard] = await Promise.all([
        first.finally(() => {
          state.over = true;
        }),
        step.effect("slow", slow, {}),
      ]);
      return heard;
    });
    await failed(instanceId);
    state.broken = false;
    await retry(instanceId);
    expect(await ended(instanceId)).toBe("complete");
    expect(await outputOf(instanceId)).toBe("slow");
  });

  it.concurrent("W17 W25 a retry repeats an answered effect that was refused at the end of the earlier run, because no code has received the refusal", async () => {
    const state = { tries: 0, broken: true, threw: false };
    const { instanceId } = await runLab(async ({ step }) => {
      const mail = effect("once", async () => {
        if (++state.tries === 1) throw new Error("Lost.");
        await held(() => state.threw || !state.broken);
        if (state.broken) throw upstreamRefused("Not now.");
        return "sent";
      });
      const check = async () => {
        await step.read("wait for retry", () => held(() => state.tries > 1));
        state.threw = state.broken;
        await step.read("check", async () => (state.broken ? Promise.reject(notRetryable("Broken.")) : 1), ONCE);
      };
      return (await Promise.all([step.effect("mail", mail, {}), check()]))[0];
    });
    expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
    await resolve(instanceId, "mail", { verb: "reject" });
    await failed(instanceId);
    Object.assign(state, { broken: false, threw: false });
    await retry(instanceId);
    expect(await ended(instanceId)).toBe("complete");
    expect(await outputOf(instanceId)).toBe("sent");
  });

  it.concurrent("W27 a retry that repeats a wait does not delay other branches, which may cause the event", async () => {
    const state = { asks: false };
    const { instanceId } = await runLab(async ({ step, payload: { name } }) => {
      const waits = async () => {
        try {
          return await step.waitFor("answer", ProbeSignal, { subject: name, timeout: state.asks ? 30_000 : 1500 });
        } catch (error) {
          await step.commit("note", () => ({}));
          throw error;
        }
      };
      const asks = async () => {
        await step.read("slow", () => held(() => state.asks), { ...ONCE, timeout: 3000 });
        await step.commit("ask", () => ({ emit: [ProbeSignal.from({ about: name, value: "hello" })] }));
      };
      return (await Promise.all([waits(), asks()]))[0].value;
    });
    await failed(instanceId);
    state.asks = true;
    await retry(instanceId);
    expect(await ended(instanceId)).toBe("complete");
    expect(await outputOf(instanceId)).toBe("hello");
  });

  it("W25 a run fails when an unawaited branch has lost its output, also when that is detected after the end of the code", async () => {
    const state = { broken: true };
    const { instanceId } = await runLab(async ({ step, instanceId: id }) => {
      const large = step.commit("large", () => ({ output: "l".repeat(200_000) }));
      void large.then(() => step.commit("behind", () => ({})));
      await held(async () => (await stateOf(id, "behind")) === "done");
      if (state.broken) throw new Error("A setting is missing.");
    });
    await failed(instanceId);
    const bucket = Object.getPrototypeOf(probeEnv.PAYLOADS) as R2Bucket;
    const real = bucket.get;
    const slow = vi.spyOn(bucket, "get").mockImplementation(async function (this: R2Bucket, key: string) {
      if (!key.includes(instanceId)) return real.call(this, key);
      // The delay exceeds the end of the code and the engine's search for unfinished branches.
      await scheduler.wait(2500);
      return null;
    } as never);
    onTestFinished(() => slow.mockRestore());
    state.broken = false;
    await retry(instanceId);
    await failed(instanceId);
    expect(await errorOf(instanceId)).toMatchObject({ code: "payload_missing" });
  });

  it.concurrent("W02 W17 a retry of a hanging once effect waits for an operator's answer, and refuses a late record of the hung attempt", async () => {
    const mail = effect("once", () => held(() => false), { timeout: 300 });
    const { instanceId } = await runLab(({ step }) => step.effect("mail", mail, {}));
    await failed(instanceId);
    const [entry] = await rows<Record<string, never>>("SELECT * FROM millrace_inbox WHERE instance_id = ?1", instanceId);
    await retry(instanceId);
    expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
    // Another process sends this record, because the platform may not end a process with its run.
    const key = { instanceId, step: "mail", item: "", generation: 1 };
    const { position, after, caught, token, epoch } = entry as never as import("../../../packages/millrace/src/store/inbox/entry.ts").Seen;
    const late = {
      key,
      position,
      after,
      caught,
      replay: "",
      readAt: null,
      class: "once" as const,
      token,
      epoch,
      saysItRuns: false,
      undoable: false,
    };
    const said = await recorderOf(probeEnv, instanceId).record(late, {
      output: "1",
      outputRef: null,
      statements: [],
      messages: [],
      error: null,
    });
    expect([said.mine, await stateOf(instanceId, "mail")]).toEqual([false, "in_doubt"]);
    await resolve(instanceId, "mail", { verb: "confirm", output: "sent" });
    expect(await outputOf(instanceId)).toBe("sent");
  });
});

it.concurrent("W16 an operator's answer does not restart a run that has ended and that the platform has deleted", async () => {
  const state = { broken: true, paid: 0 };
  const { instanceId } = await runLab(async ({ step, instanceId: id }) => {
    const mail = step.effect(
      "mail",
      effect("once", async () => Promise.reject(new Error("Lost."))),
      {},
    );
    const pay = async () => {
      await step.read(
        "check",
        async () => {
          await held(async () => (await stateOf(id, "mail")) !== "claimed");
          if (state.broken) throw new Error("Broken.");
          return 1;
        },
        ONCE,
      );
      await step.effect(
        "pay",
        effect("natural", async () => ++state.paid),
        {},
      );
    };
    await Promise.all([mail, pay()]);
  });
  await failed(instanceId);
  state.broken = false;
  await ((await LAB.get(instanceId)) as unknown as { delete(): Promise<void> }).delete();
  await resolve(instanceId, "mail", { verb: "confirm", output: 1 });
  await scheduler.wait(1000);
  expect([state.paid, (await platformOf(instanceId)).status]).toEqual([0, "unknown"]);
  await retry(instanceId);
  expect(await ended(instanceId)).toBe("complete");
  expect(state.paid).toBe(1);
});

it.concurrent("W17 an effect in doubt shows the input of its last request, not of an earlier refused one", async () => {
  const state = { to: "old", refuses: true };
  const { instanceId } = await runLab(async ({ step }) => {
    const to = await step.read("address", async () => state.to);
    await step.effect(
      "mail",
      effect("once", async () => Promise.reject(state.refuses ? upstreamRefused("No.") : new Error("Lost."))),
      { to },
    );
  });
  await failed(instanceId);
  Object.assign(state, { to: "new", refuses: false });
  await retry(instanceId, { from: "address" });
  expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
  expect(await rows("SELECT input FROM millrace_inbox WHERE instance_id = ?1 AND step = 'mail'", instanceId)).toEqual([
    { input: '{"to":"new"}' },
  ]);
});

it.concurrent.each(["keyed", "once", "read"] as const)(
  "W25 the code receives the same error of a failed %s, with its code, in every replay",
  async (kind) => {
    const heard: unknown[] = [];
    const state = { broken: true };
    const { instanceId } = await runLab(
      async ({ step }) => {
        const refuse = async (): Promise<number> => Promise.reject(upstreamRefused("No [one] home.", 402));
        const failing = kind === "read" ? step.read("x", refuse, ONCE) : step.effect("x", effect(kind, refuse), {});
        await failing.catch((error: Error) => heard.push([error.name, errors.codeOf(error), error.message]));
        await step.read("end", async () => (state.broken ? Promise.reject(new Error("Broken.")) : 1), ONCE);
      },
      { name: fresh("codes") },
    );
    await failed(instanceId);
    state.broken = false;
    await retry(instanceId);
    expect(await ended(instanceId)).toBe("complete");
    expect(heard).toEqual([0, 1].map(() => ["MillraceError", "upstream_refused", "No [one] home."]));
  },
);
