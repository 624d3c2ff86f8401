import { describe, expect, it } from "vitest";
import { runChaos } from "./chaos.ts";

describe("An engine that is killed while it works", () => {
  it("repeats no effect, loses no accepted command, and heals within a minute", async () => {
    const { result, faults } = await runChaos({ kills: 3, commands: 20, seed: 20_261_121 });
    expect(faults).toEqual([]);
    expect(result).toMatchObject({ duplicates: 0, lost: 0 });
    expect(result.slowest_convergence_s).toBeLessThan(60);
  }, 150_000);
});
