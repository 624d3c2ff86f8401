import { describe, expect, it } from "vitest";
import { runChaos } from "./chaos.ts";
import { FAULTS } from "./faults.ts";

describe("An engine whose processes fail while it works", () => {
  it("keeps what it promises of random programs, and heals within a minute", async () => {
    const goesOn = ({ kills }: { kills: number }) => kills < 3;
    const { result, problems, missed } = await runChaos({ seed: 20_261_121, faults: FAULTS, lanes: 8, goesOn });
    expect(problems).toEqual([]);
    expect(missed).toEqual([]);
    expect(result.kills).toBeGreaterThanOrEqual(3);
    expect(result.slowest_convergence_s).toBeLessThan(60);
  }, 400_000);
});
