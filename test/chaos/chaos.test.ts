import { describe, expect, it } from "vitest";
import { event as envelopeOf } from "../engine/event.ts";
import { runChaos } from "./chaos.ts";
import { FAULTS } from "./faults.ts";
import { withEngine } from "./workshop.ts";

describe("The queue that survives the processes", () => {
  it("the test queue redelivers messages that the engine returns while the database is locked; the local queue would lose them with its process", async () => {
    await withEngine(async ({ engine, database }) => {
      const event = envelopeOf("probe.signal", "nobody", { about: "nobody", value: "one" }, "nobody/one");
      const deliver = async (attempt: number) => {
        const body = JSON.stringify(["probe-events", [event], attempt]);
        return (await fetch(`${engine.url}/door/deliver`, { method: "POST", body })).json();
      };
      const locked = database.lock(6000);
      // The last but one of the queue's deliveries: after the last one the message returns as a new message.
      expect(await deliver(2)).toEqual({ gave: { acked: 0 } });
      await locked;
      expect(await deliver(1)).toEqual({ gave: { acked: 1 } });
    });
  }, 60_000);
});

describe("An engine with processes that fail during work", () => {
  it("an engine with failing processes keeps the guarantees for random programs, and recovers within a minute", async () => {
    const goesOn = ({ kills }: { kills: number }) => kills < 3;
    const { result, problems, missed } = await runChaos({ seed: 20_261_121, faults: FAULTS, lanes: 8, steps: "drawn", goesOn });
    expect(problems).toEqual([]);
    expect(missed).toEqual([]);
    expect(result.kills).toBeGreaterThanOrEqual(3);
    expect(result.slowest_convergence_s).toBeLessThan(60);
  }, 400_000);
});
