import { env } from "cloudflare:workers";
import { sql, upstreamRefused } from "millrace";
import { instances } from "millrace/operate";
import { describe, expect, it, onTestFinished } from "vitest";
import { recorderOf } from "../../../packages/millrace/src/recorder/client.ts";
import { keeperRound, operator, probeEnv, reaches, rows, statusOf, until } from "../harness.ts";
import { errorOf, LAB, platformOf, platformReaches, runLab } from "../lab.ts";

describe("A failing recorder", () => {
  /** Makes D1 refuse batches with such a statement, with this error message. */
  function d1Says(
    words: string,
    about: (statement: { statement: string; params: unknown[] }) => boolean,
    times = Number.POSITIVE_INFINITY,
  ) {
    const prototype = Object.getPrototypeOf(env.DB);
    const original = prototype.batch;
    const mend = () => {
      prototype.batch = original;
    };
    onTestFinished(mend);
    let said = 0;
    prototype.batch = function (statements: { statement: string; params: unknown[] }[]) {
      if (said >= times || !statements.some(about)) return original.call(this, statements);
      said++;
      return Promise.reject(new Error(words));
    };
    return { said: () => said, mend };
  }

  it("W31 a run with an end that the recorder cannot write does not fail: the keeper queries the platform", async () => {
    let id = "";
    const finishes = d1Says("D1_ERROR: Exceeded maximum DB size.", ({ statement, params }) => {
      return statement.includes("UPDATE millrace_instances SET status = r.value") && id !== "" && String(params[0]).includes(id);
    });
    const { instanceId } = await runLab(async ({ step, instanceId: own }) => {
      await step.commit("a", () => ({}));
      id = own;
    });
    expect(await platformReaches(instanceId, "complete", "errored")).toBe("complete");
    await until(async () => finishes.said(), Boolean);
    expect(await statusOf(instanceId)).toBe("running");
    finishes.mend();
    await keeperRound();
    expect(await reaches(instanceId, "complete")).toBe("complete");
  });

  it("I17 the end of a run that wrote nothing after a sleep is reported again until it is written", async () => {
    let id = "";
    const finishes = d1Says(
      "D1_ERROR: D1 DB is overloaded. Requests queued for too long.",
      ({ statement, params }) =>
        statement.includes("UPDATE millrace_instances SET status = r.value") && id !== "" && String(params[0]).includes(id),
      1,
    );
    const { instanceId } = await runLab(async ({ step, instanceId: own }) => {
      await step.commit("a", () => ({}));
      await step.sleep("nap", 20);
      id = own;
    });
    expect(await platformReaches(instanceId, "complete", "errored")).toBe("complete");
    expect(finishes.said()).toBe(1);
    expect(await statusOf(instanceId)).toBe("complete");
  });

  it("R02 a step waits for a Retry-After of the database instead of its own delay", async () => {
    let id = "";
    d1Says("D1_ERROR: Your account has exceeded D1's free tier daily row write limit.", ({ params }) => {
      return id !== "" && params.some((value) => typeof value === "string" && value.includes(id));
    });
    const { instanceId } = await runLab(({ step, instanceId: own }) => {
      const make = () => {
        id = own;
        return {};
      };
      return step.commit("a", make, { retries: { limit: 3, delay: 10 } });
    });
    const attempts = async () => (await instances.history(probeEnv, { id: instanceId, workflow: "lab" })).steps[0]?.attempts;
    const [first] = (await until(attempts, (tries) => tries?.[0]?.retry_delay_ms != null)) ?? [];
    expect(first?.retry_delay_ms).toBeGreaterThanOrEqual(3_600_000);
    await (await LAB.get(instanceId)).terminate();
    await env.DB.prepare("UPDATE millrace_instances SET status = 'terminated', check_at = NULL WHERE id = ?1").bind(instanceId).run();
  });

  it.each([
    ["NaN", () => sql`INSERT INTO probe_rows (id) VALUES (${Number.NaN})`, "The value NaN was to be written (INSERT INTO probe_rows"],
    [
      "Infinity in a row",
      () => ({ text: "INSERT … json_each(?1)", row: { id: 1 / 0 } }),
      'The value Infinity was to be written (INSERT … json_each(?1)…, field "id")',
    ],
    ["a Date", () => sql`INSERT INTO probe_rows (id) VALUES (${new Date() as never})`, "has a value of the type Date"],
    ["bytes", () => sql`INSERT INTO probe_rows (id) VALUES (${new Uint8Array(4) as never})`, "of the type Uint8Array"],
    ["an object", () => sql`INSERT INTO probe_rows (id) VALUES (${{ a: 1 } as never})`, "of the type Object"],
  ])("R01 a run with %s in a statement fails, and the error names the statement", async (_, statement, message) => {
    const { instanceId } = await runLab(({ step }) => step.commit("slip", () => ({ statements: [statement() as never] })));
    expect(await reaches(instanceId, "complete", "errored")).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({ step: "slip", code: "config_invalid", message: expect.stringContaining(message) });
  });

  it("R01 a commit with `false` in place of a statement fails its own run only", async () => {
    const never = false as boolean;
    const slip = await runLab(({ step }) => step.commit("slip", () => ({ statements: [(never && "SELECT 1") as never] })));
    const other = await runLab(({ step }) => step.commit("fine", () => ({})));
    expect(await reaches(other.instanceId, "complete", "errored")).toBe("complete");
    expect(await reaches(slip.instanceId, "complete", "errored")).toBe("errored");
    expect(await errorOf(slip.instanceId)).toMatchObject({ step: "slip", code: "config_invalid" });
    expect((await platformOf(slip.instanceId)).status).toBe("errored");
  });
});

describe("Outputs", () => {
  it("W32 300 outputs of 120 KB, more than one RPC answer can carry, are read when their steps request them in a further replay", {
    timeout: 120_000,
  }, async () => {
    const items = Array.from({ length: 300 }, (_, index) => String(index));
    let broken = true;
    const { instanceId } = await runLab(async ({ step }) => {
      await step.map(items, { key: (item) => item, concurrency: 100 }, (item, each) => each.commit("make", () => ({ output: item })));
      await step.commit("last", () => (broken ? Promise.reject(upstreamRefused("Not yet.")) : {}), { retries: { limit: 0, delay: 10 } });
    });
    expect(await reaches(instanceId, "complete", "errored")).toBe("errored");
    const inflate = `UPDATE millrace_inbox SET output = '"' || replace(hex(zeroblob(60000)), '0', 'x') || '"' WHERE instance_id = ?1`;
    await env.DB.prepare(inflate).bind(instanceId).run();
    broken = false;
    await platformReaches(instanceId, "errored");
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "mended" });
    expect(await reaches(instanceId, "complete")).toBe("complete");

    const recorder = recorderOf(probeEnv, instanceId);
    expect((await recorder.history(instanceId)).entries).toHaveLength(301);
    const key = (item: string) => ({ instanceId, step: "make", item, generation: 1 });
    const outputs = await Promise.all(items.map((item) => recorder.output(key(item))));
    expect(outputs.every((output) => output?.length === 120_002)).toBe(true);
    await env.DB.prepare("DELETE FROM millrace_inbox WHERE instance_id = ?1").bind(instanceId).run();
  });

  it("W32 an output of more than 4 MiB is not stored, the error names the remedy, and a commit with such an output writes nothing", async () => {
    const { instanceId } = await runLab(({ step }) => step.commit("huge", () => ({ output: "x".repeat(4 * 1024 * 1024) })));
    expect(await reaches(instanceId, "complete", "errored")).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({
      step: "huge",
      code: "output_too_large",
      message: expect.stringContaining("store it in the step and return where it is"),
    });
    expect(await rows("SELECT 1 FROM millrace_inbox WHERE instance_id = ?1", instanceId)).toEqual([]);
  });
});
