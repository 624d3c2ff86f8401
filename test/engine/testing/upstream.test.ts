import { defineStep, type EffectCall } from "millrace";
import { deliverTo, messageFor, recordingUpstream, skipPauses, untilEnded } from "millrace/testing";
import { dispatch } from "millrace/worker";
import { expect, it } from "vitest";
import { lab, labs } from "../../probe/lab.ts";
import { app } from "../../probe/worker.ts";
import { fresh, probeEnv } from "../harness.ts";
import { runLab } from "../lab.ts";

const SHOP = "https://shop.example/charges";
const post = (key?: string) => fetch(SHOP, { method: "POST", headers: key ? { "idempotency-key": key } : {}, body: "{}" });

const charge = defineStep({
  effect: "keyed",
  async run({ key, fetch }: EffectCall<undefined>) {
    const answer = await fetch(SHOP, { method: "POST", headers: { "idempotency-key": key } });
    if (!answer.ok) throw new Error(`The shop answered ${answer.status}.`);
    return answer.json<{ id: string }>();
  },
});

it("a recordingUpstream recognizes a repeated key, and counts each request without a key", async () => {
  using upstream = recordingUpstream();
  const answers = [await post("a"), await post("a"), await post(), await post()];
  expect(await Promise.all(answers.map((one) => one.json()))).toEqual([
    { id: "effect-1" },
    { id: "effect-1" },
    { id: "effect-2" },
    { id: "effect-3" },
  ]);
  expect(await (await fetch(SHOP)).json()).toEqual({ id: "effect-3" });
  expect((await fetch("https://shop.example/refunds")).status).toBe(404);
  expect(upstream.requests.map(({ was }) => was)).toEqual(["done", "known", "done", "done", "read", "read"]);
  expect(upstream.effects()).toHaveLength(3);
  expect(upstream.effects({ key: "a" })).toMatchObject([{ method: "POST", url: SHOP, body: "{}", key: "a" }]);
  expect(upstream.effects({ url: "refunds" })).toEqual([]);
});

it("a recordingUpstream refuses, loses and delays answers as configured, and restores fetch", async () => {
  const real = globalThis.fetch;
  const upstream = recordingUpstream({ answer: ({ key }, done) => Response.json({ key, done: done.length }) });
  upstream.next({ does: "fail", status: 429 });
  upstream.next({ does: "lose", url: "/charges" });
  expect((await post("a")).status).toBe(429);
  expect(upstream.effects()).toEqual([]);
  await expect(post("a")).rejects.toThrow("Network connection lost.");
  expect(await (await post("a")).json()).toEqual({ key: "a", done: 1 });
  expect(upstream.effects()).toHaveLength(1);
  upstream.next({ does: "delay", delayMs: 20 });
  const late = post("b");
  expect(await Promise.race([late.then(() => "answered"), scheduler.wait(1).then(() => "not yet")])).toBe("not yet");
  expect((await late).status).toBe(200);
  upstream.restore();
  expect(globalThis.fetch).toBe(real);
});

it("skipPauses removes the delay of retries and sleeps, and a recordingUpstream has the step of each request", async () => {
  using upstream = recordingUpstream();
  using _ = skipPauses();
  upstream.next({ does: "lose" });
  const { instanceId } = await runLab(async ({ step }) => {
    await step.sleep("a day", "1 day");
    return step.effect("charge", charge, undefined);
  });
  expect(await untilEnded(probeEnv, instanceId)).toEqual({ status: "complete", result: { id: "charge" }, error: null });
  expect(upstream.requests.map(({ was, by }) => [was, by?.step, by?.class, by?.key])).toEqual(
    ["done", "known"].map((was) => [was, "charge", "keyed", upstream.requests[0]?.key]),
  );
  expect(upstream.effects({ instanceId })).toHaveLength(1);
});

it("untilEnded throws an error with the status of an instance that does not end", async () => {
  const { instanceId } = await runLab(({ step }) => step.approve("may", { question: "May it?" }));
  await expect(untilEnded(probeEnv, instanceId, { withinMs: 300 })).rejects.toThrow(/has not ended after 300 ms: its status is \w+\.$/);
  await expect(untilEnded(probeEnv, "none", { withinMs: 0 })).rejects.toThrow("it has no row.");
});

it("a message that is delivered twice is one run with one effect", async () => {
  using upstream = recordingUpstream();
  const name = fresh("twice");
  labs.set(name, ({ step }) => step.effect("charge", charge, undefined));
  const { message, instanceId } = messageFor(lab, { name, note: "" });
  const consume = dispatch(app);
  const deliver = () => deliverTo((batch) => consume(batch, probeEnv), "probe-commands", [message, message]);
  expect(await deliver()).toEqual({ acked: 2, retried: 0 });
  expect(await untilEnded(probeEnv, instanceId)).toMatchObject({ status: "complete" });
  expect(await deliver()).toEqual({ acked: 2, retried: 0 });
  expect(upstream.effects({ instanceId })).toHaveLength(1);
});
