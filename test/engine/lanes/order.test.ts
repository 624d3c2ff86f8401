import { describe, expect, it } from "vitest";
import { blocking } from "../../probe/lanes.ts";
import { LabLane } from "./lab.ts";

describe("a lane", () => {
  it("hands messages out in the order in which they came, ten at a time", async () => {
    const lane = new LabLane(blocking);
    await lane.send(...Array.from({ length: 25 }, (_, n) => n));
    await lane.is("empty");
    expect(lane.calls.flat()).toEqual(Array.from({ length: 25 }, (_, n) => n));
    expect(lane.calls.map((one) => one.length)).toEqual([10, 10, 5]);
  });

  it("lets nothing pass a head that fails, and tries the head alone until it is done", async () => {
    let failures = 2;
    const lane = new LabLane(blocking, (batch) => {
      if (batch.messages[0]?.body.n === 0 && failures-- > 0) batch.messages[0]?.retry();
    });
    await lane.send(0, 1, 2);
    await lane.is("empty");
    expect(lane.calls).toEqual([[0, 1, 2], [0], [0], [1, 2]]);
  });
});
