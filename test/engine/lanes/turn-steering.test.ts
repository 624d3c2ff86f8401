import { lanes as engineLanes, instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { blocked, heldUp, paired, parked } from "../../probe/turns.ts";
import { until } from "../../until.ts";
import { probeEnv } from "../harness.ts";
import { laneEnv } from "./lab.ts";
import { TurnKey } from "./turning.ts";

type Steer = Omit<Parameters<typeof engineLanes.steer>[3], "reason">;
const steer = (key: TurnKey, how: Steer) => engineLanes.steer(probeEnv, key.by, key.name, { ...how, reason: "A test." });
const changed = { code: "invalid_transition", message: expect.stringContaining("read the lane again") };

describe("Message ids", () => {
  it("a lane action with a message id is refused if another message is now the first", async () => {
    const key = new TurnKey(heldUp);
    key.breaks("a");
    key.breaks("b");
    await key.askAll("a", "b", "c");
    await key.stands(({ state }) => state === "held");
    for (const verb of ["pause", "resume", "retry_head", "skip_head"] as const) {
      await expect(steer(key, { verb, id: key.id("z") })).rejects.toMatchObject({ code: "invalid_transition" });
    }
    await steer(key, { verb: "resume", id: key.id("a") });
    await key.stands(({ state, ahead }) => state === "held" && ahead[0]?.instance_id === key.id("b"));
    await expect(steer(key, { verb: "resume", id: key.id("a") })).rejects.toMatchObject(changed);
    expect(await key.seen()).toEqual(["a begins", "b begins"]);
    expect(await steer(key, { verb: "resume", id: key.id("b") })).toMatchObject({ instance_ids: [key.id("b")] });
    await key.seenBy("c ends");
  });

  it("a skip with a message id does not skip another failed instance of the lane", async () => {
    const key = new TurnKey(paired);
    key.breaks("a");
    key.breaks("b");
    const letGo = key.gate("c");
    await key.askAll("a", "b", "c", "d");
    await key.stands(({ ahead }) => ahead.filter(({ failed }) => failed !== null).length === 2);
    expect(await steer(key, { verb: "skip_head", id: key.id("b") })).toMatchObject({ instance_ids: [key.id("b")] });
    await key.seenBy("c begins");
    expect(await key.stands(() => true)).toMatchObject({ depth: 1, ahead: [{ instance_id: key.id("a") }, { instance_id: key.id("c") }] });
    expect(await steer(key, { verb: "skip_head" })).toMatchObject({ instance_ids: [key.id("a")] });
    await key.seenBy("d ends");
    letGo();
    await key.seenBy("c ends");
  });
});

describe("Retried instances", () => {
  it("a skip of a failed instance that is being retried is refused, and does not skip the next message of the lane", async () => {
    const key = new TurnKey(blocked);
    key.breaks("a");
    await key.askAll("a", "b");
    await key.stands(({ ahead }) => ahead[0]?.failed != null);
    await key.reaches("a", "errored");
    const letGo = key.gate("a");
    await instances.act(probeEnv, key.by, "retry", key.id("a"), { reason: "A test." });
    await expect(steer(key, { verb: "skip_head" })).rejects.toMatchObject(changed);
    expect(await key.stands(() => true)).toMatchObject({ state: "waiting", depth: 1, ahead: [{ failed: null }] });
    // The skip is refused again after the lane has shown the retry.
    await expect(steer(key, { verb: "skip_head" })).rejects.toMatchObject({ message: expect.stringContaining("as `id`") });
    const retry = steer(key, { verb: "retry_head" });
    await expect(retry).rejects.toMatchObject({
      code: "invalid_transition",
      message: expect.stringContaining("waits for the running instance"),
    });
    letGo();
    await key.seenBy("b ends");
  });
});

it("a message that waits in a lane with `hold` after a repaired instance is skipped only by its id", async () => {
  const key = new TurnKey(heldUp);
  const mend = key.breaks("a");
  await key.askAll("a", "b");
  await key.stands(({ state }) => state === "held");
  await key.reaches("a", "errored");
  mend();
  await instances.act(probeEnv, key.by, "retry", key.id("a"), { reason: "A test." });
  const { head } = await key.stands(({ ahead }) => ahead.length === 0);
  await expect(steer(key, { verb: "skip_head" })).rejects.toMatchObject({ message: expect.stringContaining("resume it") });
  expect(await steer(key, { verb: "skip_head", id: head?.id ?? "" })).toMatchObject({ message_id: head?.id });
});

it("a paused empty lane is listed until it is erased", async () => {
  const key = new TurnKey(parked);
  const object = engineLanes.objectOf(laneEnv, { ...key.name, tenant: "acme" });
  const states = async () => {
    const { items: lanes } = await engineLanes.list(probeEnv, key.by, { after: { lane: key.name.lane, key: "" }, limit: 1000 });
    return lanes.filter((one) => one.key === key.key).map(({ state }) => state);
  };
  await object.pause();
  expect(await until(states, (found) => found.length > 0, 5000)).toEqual(["paused"]);
  await object.erase();
  expect(await states()).toEqual([]);
  expect(await key.stands(() => true)).toMatchObject({ state: "empty" });
});
