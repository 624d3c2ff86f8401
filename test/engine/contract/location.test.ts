import { keeperOf, placed } from "millrace/worker";
import { expect, it } from "vitest";
import { startInstances } from "../../../packages/millrace/src/recorder/start.ts";
import { envelopeOf, fresh, probeEnv, reaches, start } from "../harness.ts";

const env = { ...probeEnv, LOCATION_HINT: "weur" };

it("Durable Objects are created in the configured location of the database", () => {
  const asked: unknown[] = [];
  const KEEPER = { idFromName: (name: string) => name, get: (...call: unknown[]) => asked.push(...call) };
  keeperOf({ ...env, KEEPER } as unknown as typeof probeEnv);
  expect(asked).toEqual(["keeper", { locationHint: "weur" }]);
});

it("workflow instances run in the configured location", async () => {
  const name = fresh();
  const { instanceId: id } = await start(name, [{ do: "commit", name: "note" }]);
  let hint: string | undefined;
  const PROBE = {
    createBatch: (batch: { instances: WorkflowInstanceCreateOptions[] }) => {
      hint = batch.instances[0]?.locationHint;
      return probeEnv.PROBE.createBatch(batch);
    },
  };
  await startInstances({ ...env, PROBE } as unknown as typeof env, [{ id, workflow: "probe", envelope: await envelopeOf(id) }], "first");
  expect(hint).toBe("weur");
  expect(await reaches(id, "complete")).toBe("complete");
});

it("Durable Objects are created near the first caller when no valid location is configured", () => {
  expect(placed({})).toEqual({});
  expect(placed({ LOCATION_HINT: "moon" })).toEqual({});
});
