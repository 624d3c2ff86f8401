import { env } from "cloudflare:workers";
import { type Accepted, defineCommand, defineStep, defineWorkflow, type EffectCall, ids } from "millrace";
import { instances } from "millrace/operate";
import { catalog } from "millrace/worker";
import { describe, expect, it, onTestFinished } from "vitest";
import * as z from "zod";
import { acceptCommands } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import { readMessage } from "../../../packages/millrace/src/intake/consume/read.ts";
import { startsOf } from "../../probe/consumers.ts";
import { LabEvent } from "../../probe/lab.ts";
import { ProbeSignal, probeCommands } from "../../probe/messages.ts";
import { deliver, event, fresh, operator, probeEnv, reaches, rows, start, until } from "../harness.ts";
import { errorOf, platformReaches, restartLab, runLab } from "../lab.ts";

const NOTE = "n".repeat(40_000);

/** Makes this number of R2 calls fail for keys that contain `about`. Returns the count of failures. */
function r2Fails(
  method: "get" | "put" | "delete",
  about: string,
  times: number,
  words = "We encountered an internal error. Please try again. (10001)",
): { failed: () => number } {
  const prototype = Object.getPrototypeOf(env.PAYLOADS);
  const original = prototype[method];
  onTestFinished(() => {
    prototype[method] = original;
  });
  let failed = 0;
  prototype[method] = function (key: string, ...rest: unknown[]) {
    if (!String(key).includes(about) || failed >= times) return original.call(this, key, ...rest);
    failed++;
    return Promise.reject(new Error(`${method}: ${words}`));
  };
  return { failed: () => failed };
}

describe("Payloads in R2", () => {
  it("W30 a run with its payload in R2 completes again when the platform has lost the run's end and replays it", async () => {
    const { instanceId } = await runLab(({ step }) => step.commit("a", () => ({ output: 1 })), { note: NOTE });
    await platformReaches(instanceId, "complete");
    expect(await reaches(instanceId, "complete")).toBe("complete");
    await env.DB.prepare("UPDATE millrace_instances SET status = 'running', check_at = 0 WHERE id = ?1").bind(instanceId).run();
    expect(await restartLab(instanceId)).toBe("complete");
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(await errorOf(instanceId)).toBeNull();
  });

  it("W30 the payload in R2 of a complete command is kept when a client repeats the command, because an undo needs it", async () => {
    const name = fresh();
    const payload = { name, steps: [{ do: "keyed", name: "act", undo: "natural" }], note: NOTE };
    const { instanceId } = await start(name, [], { payload });
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect((await start(name, [], { payload })).replayed).toBe(true);
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "ordered by mistake" });
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
  });
});

describe("Wrong references", () => {
  /** The dead letter of an event with this reference, after its first attempt. */
  async function letterOf(payload_ref: string) {
    const message = { ...event("lab.event" as never, fresh(), {}), payload_inline: undefined, payload_ref };
    expect(await deliver("probe-events", [message])).toEqual({ acked: 1, retried: 0 });
    const [letter] = await rows<{ reason: string; error: string }>(
      "SELECT reason, error, issues FROM millrace_dead_letters WHERE idempotency_key = ?1",
      message.idempotency_key,
    );
    return letter;
  }

  it("Q09 an event with a reference to text that is not JSON becomes a dead letter, which contains no part of the text", async () => {
    const path = `payloads/acme/${fresh()}`;
    await env.PAYLOADS.put(path, "private text");
    const letter = await letterOf(`r2://${path}`);
    expect(letter).toMatchObject({ reason: "invalid_payload", error: expect.stringContaining(`${path} is not JSON`) });
    expect(letter?.error).not.toContain("private");
  });

  it("Q09 an event with a reference of more bytes than R2 accepts becomes a dead letter with the reason `invalid_envelope`", async () => {
    expect(await letterOf(`r2://payloads/acme/${"€".repeat(400)}`)).toMatchObject({
      reason: "invalid_envelope",
      issues: expect.stringContaining("at most 1,024 bytes"),
    });
  });

  it("Q09 an event with a reference that R2 refuses becomes a dead letter with the reason `payload_missing`", async () => {
    const path = `payloads/acme/${fresh()}`;
    const { failed } = r2Fails("get", path, 99, "The specified object name is not valid. (10020)");
    expect(await letterOf(`r2://${path}`)).toMatchObject({ reason: "payload_missing" });
    expect(failed()).toBe(1);
  });
});

describe("R2 errors", () => {
  it("W31 one error of R2 while a payload is stored does not prevent the acceptance of the command", async () => {
    const name = fresh("lab");
    const { failed } = r2Fails("put", ids.fingerprint({ name, note: NOTE }), 1);
    const { instanceId } = await runLab(async () => undefined, { name, note: NOTE });
    expect(failed()).toBe(1);
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
  });

  it("W31 one error of R2 while a replay reads a payload or a large output fails no step and no run", async () => {
    const name = fresh("lab");
    const opening = r2Fails("get", ids.fingerprint({ name, note: NOTE }), 1);
    let reading: { failed: () => number } | undefined;
    const { instanceId } = await runLab(
      async ({ step, instanceId: id }) => {
        reading ??= r2Fails("get", id, 1);
        return (await step.commit("large", () => ({ output: "x".repeat(200_000) }))).length;
      },
      { name, note: NOTE },
    );
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect([opening.failed(), reading?.failed()]).toEqual([1, 1]);
    const { steps } = await instances.history(probeEnv, { id: instanceId, workflow: "lab" });
    expect(steps.map((step) => step.name)).toEqual(["large"]);
  });

  it("W31 a lasting error of R2 between two steps is retried by a separate step that reads the output", async () => {
    const large = "x".repeat(200_000);
    let reading: { failed: () => number } | undefined;
    const { instanceId } = await runLab(async ({ step, instanceId: id }) => {
      // One read makes five tries.
      reading ??= r2Fails("get", id, 5);
      const output = await step.read("large", async () => large);
      await step.commit("small", () => ({}));
      return output.length;
    });
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(reading?.failed()).toBe(5);
    const { steps } = await instances.history(probeEnv, { id: instanceId, workflow: "lab" });
    expect(steps.map((step) => step.name)).toEqual(["large", "large · read again 1", "small"]);
  });

  it("W31 a lasting error of R2 for an effect that the code did not await does not prevent the end of the run", async () => {
    const name = fresh("large");
    const large = defineStep({ effect: "keyed", run: async () => "x".repeat(200_000) });
    let failing: { failed: () => number } | undefined;
    const id = ids.instance("acme", "lab", name);
    const { instanceId } = await runLab(
      async ({ step }) => {
        void step.effect("large", large, {});
        failing = r2Fails("get", id, 6);
      },
      { name },
    );
    expect(await platformReaches(instanceId, "complete", "errored")).toBe("complete");
    expect(failing?.failed()).toBe(6);
    expect(await reaches(instanceId, "complete")).toBe("complete");
  });

  it("W31 an error of R2 cannot fail the end of a run, because the end deletes no object", async () => {
    const { failed } = r2Fails("delete", "payloads/", 99);
    const { instanceId } = await runLab(({ step }) => step.commit("a", () => ({ output: 1 })), { note: NOTE });
    expect(await platformReaches(instanceId, "complete", "errored")).toBe("complete");
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(failed()).toBe(0);
  });
});

describe("Slow R2", () => {
  it("W25 a large event that arrived before an effect returned wins their race in every replay, although R2 is slow", async () => {
    const winners: string[] = [];
    let acted = false;
    const act = defineStep({
      effect: "natural",
      async run({ input }: EffectCall<() => boolean>) {
        while (!input()) await scheduler.wait(5);
        acted = true;
        return 1;
      },
    });
    let told = false;
    const name = fresh("lab");
    const { instanceId } = await runLab(
      async ({ step }) => {
        const winner = await Promise.race([
          step.waitFor("event", ProbeSignal, { subject: name, timeout: 60_000 }).then(() => "event"),
          step.effect("act", act, () => told).then(() => "effect"),
        ]);
        winners.push(winner);
        await step.commit(`then ${winner}` as never, () => ({}));
      },
      { name },
    );
    const bucket = Object.getPrototypeOf(env.PAYLOADS);
    const { get } = bucket;
    onTestFinished(() => {
      bucket.get = get;
    });
    const said = { about: name, value: NOTE };
    const path = `payloads/acme/${name}/${ids.fingerprint(said)}`;
    await env.PAYLOADS.put(path, JSON.stringify(said));
    const { payload_inline: _, ...message } = event("probe.signal", name, null);
    bucket.get = async function (key: string, ...rest: unknown[]) {
      // The effect returns while R2 still reads the event.
      if (key === path) {
        told = true;
        while (!acted) await scheduler.wait(5);
        await scheduler.wait(300);
      }
      return get.call(this, key, ...rest);
    };
    await until(
      () => rows("SELECT 1 FROM millrace_waits WHERE instance_id = ?1", instanceId),
      (found) => found.length === 1,
    );
    await deliver("probe-events", [{ ...message, payload_ref: `r2://${path}` }]);
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    bucket.get = get;
    expect(await restartLab(instanceId)).toBe("complete");
    expect(new Set(winners).size).toBe(1);
    expect(await rows("SELECT step FROM millrace_inbox WHERE instance_id = ?1 AND step LIKE 'then%'", instanceId)).toHaveLength(1);
  });

  it("W31 two attempts at a read with a large output store their outputs in R2 under different names", async () => {
    let list = "a".repeat(1_500_000);
    const { instanceId } = await runLab(async ({ step }) => (await step.read("list", async () => list)).length);
    expect(await platformReaches(instanceId, "complete")).toBe("complete");
    list = "b".repeat(1_500_000);
    expect(await restartLab(instanceId)).toBe("complete");
    const { objects } = await env.PAYLOADS.list({ prefix: `outputs/acme/${instanceId}/` });
    const kept = await Promise.all(objects.map(async ({ key }) => (await (await env.PAYLOADS.get(key))?.text())?.charAt(1)));
    expect(kept.toSorted()).toEqual(["a", "b"]);
  });
});

describe("Large messages", () => {
  it("W32 a hundred large messages of one step are all sent, although one database value could not contain them", async () => {
    const names = Array.from({ length: 100 }, (_, index) => `${index}`);
    const name = fresh();
    const { instanceId } = await runLab(({ step }) =>
      step.commit("tell", () => ({
        emit: names.map((one) => LabEvent.from({ name: `${name}/${one}`, note: "n".repeat(30_000), row: "told" })),
      })),
    );
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    const told = () => rows("SELECT 1 FROM probe_rows WHERE name LIKE ?1", `${name}/%`);
    expect(await until(told, (found) => found.length === 100)).toHaveLength(100);
    expect(await rows("SELECT 1 FROM millrace_inbox, json_each(messages) WHERE instance_id = ?1", instanceId)).toHaveLength(100);
  });

  it("W32 a hundred large events for a wait are all stored from one batch", async () => {
    const about = fresh();
    const large = Array.from({ length: 100 }, (_, index) =>
      event("probe.signal", about, { about, value: `${index}/${"v".repeat(30_000)}` }),
    );
    expect(await deliver("probe-events", large)).toEqual({ acked: 100, retried: 0 });
    expect(await rows("SELECT 1 FROM millrace_signals WHERE subject = ?1", about)).toHaveLength(100);
    await env.DB.prepare("DELETE FROM millrace_signals WHERE subject = ?1").bind(about).run();
  });
});

it("Q02 a payload of the maximum depth is accepted; a deeper payload is refused and not stored", async () => {
  const nested = (levels: number): unknown => (levels === 0 ? 1 : { a: nested(levels - 1) });
  const Deep = defineCommand({
    type: "lab.deep",
    payload: z.object({ name: z.string(), data: z.unknown() }),
    key: ({ name }) => name,
    subject: ({ name }) => name,
    queue: probeCommands,
  });
  const deep = catalog({ consumers: [startsOf(defineWorkflow({ name: "lab", on: Deep, run: async () => 1 }))] });
  // The envelope and the payload are one level each.
  const ask = (data: unknown) =>
    acceptCommands(probeEnv, deep, { tenantId: "acme", source: "test" }, [{ type: Deep.type, payload: { name: fresh(), data } }]);
  const [refused] = await ask(nested(63));
  expect(refused).toMatchObject({ code: "invalid_payload", message: expect.stringContaining("nested deeper than 64") });
  const [accepted] = (await ask(nested(62))) as [Accepted];
  const [row] = await rows<{ envelope: string }>("SELECT envelope FROM millrace_instances WHERE id = ?1", accepted.instanceId);
  expect(() => readMessage(JSON.parse(row?.envelope ?? ""), () => Deep as never)).not.toThrow();
});
