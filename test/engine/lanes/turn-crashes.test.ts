import { runInDurableObject } from "cloudflare:test";
import { actions, deadLetters, lanes, SCOPES } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { blocked, parked } from "../../probe/turns.ts";
import { app } from "../../probe/worker.ts";
import { until } from "../../until.ts";
import { dieAt, failAt, keeperRound, pauseAt, probeEnv, rows } from "../harness.ts";
import { TurnKey } from "./turning.ts";

describe("Turns", () => {
  it("L11 a lane that dies after it started an instance waits for the end of that instance", async () => {
    const key = new TurnKey(parked);
    const letGo = key.gate("a");
    const started = pauseAt("L11 started, turn not recorded");
    await key.askAll("a", "b");
    await key.seenBy("a begins");
    await until(async () => started.reached(), Boolean);
    await key.die();
    started.release();
    expect(await key.stands(({ ahead }) => ahead.length > 0)).toMatchObject({ depth: 1, ahead: [{ instance_id: key.id("a") }] });
    expect(await key.seen()).toEqual(["a begins"]);
    letGo();
    expect(await key.seenBy("b ends")).toEqual(["a begins", "a ends", "b begins", "b ends"]);
  });

  it("L11 an instance that ended before its lane recorded the start does not block the next command", async () => {
    const key = new TurnKey(blocked);
    const started = pauseAt("L11 started, turn not recorded");
    await key.askAll("a", "b");
    await key.seenBy("a ends");
    expect(await key.reaches("a", "complete")).toBe("complete");
    started.release();
    expect(await key.seenBy("b ends", 5000)).toContain("b ends");
  });

  it("L11 a lane that died still waits for its running instance, and continues after the instance has ended", async () => {
    const key = new TurnKey(parked);
    const letGo = key.gate("a");
    await key.askAll("a", "b");
    await key.seenBy("a begins");
    await key.stands(({ state }) => state === "waiting");
    await key.die();
    expect(await key.stands(({ state }) => state === "waiting")).toMatchObject({ depth: 1, ahead: [{ instance_id: key.id("a") }] });
    expect(await key.seen()).toEqual(["a begins"]);
    letGo();
    await key.seenBy("b ends");
  });

  it("L12 a lane continues when the database has the end of an instance that did not notify the lane", async () => {
    const key = new TurnKey(blocked);
    const untold = dieAt("L12 ended, lane not notified", key.id("a"));
    await key.askAll("a", "b");
    expect(await key.reaches("a", "complete")).toBe("complete");
    expect(untold.died()).toBe(true);
    expect(await key.stands(({ ahead }) => ahead.length > 0)).toMatchObject({ state: "waiting", depth: 1 });
    await key.age(20);
    await key.seenBy("b ends");
  });

  it("L12 a lane waits while the database has its instance as running, or as failed with the policy `block`", async () => {
    const [under, failed] = [new TurnKey(blocked), new TurnKey(blocked)];
    const letGo = under.gate("a");
    failed.breaks("a");
    const untold = dieAt("L12 ended, lane not notified", failed.id("a"));
    await failed.askAll("a", "b");
    expect(await failed.reaches("a", "errored")).toBe("errored");
    expect(untold.died()).toBe(true);
    await under.askAll("a", "b");
    await under.seenBy("a begins");
    await under.stands(({ state }) => state === "waiting");
    await under.age(20);
    await failed.age(20);
    await failed.stands(({ ahead }) => ahead[0]?.failed != null);
    expect(await under.stands(({ state }) => state === "waiting")).toMatchObject({ depth: 1, ahead: [{ failed: null }] });
    expect(await failed.seen()).toEqual(["a begins"]);
    letGo();
    await under.seenBy("b ends");
  });

  it("a lane waits for its running instance, also after a restart of that instance on the platform", async () => {
    const key = new TurnKey(parked);
    const letGo = key.gate("a");
    await key.askAll("a", "b");
    await key.seenBy("a begins");
    await key.stands(({ state }) => state === "waiting");
    await (await (probeEnv as unknown as { TURN_PARKED: Workflow }).TURN_PARKED.get(key.id("a"))).restart();
    letGo();
    expect(await key.seenBy("b ends")).toEqual(["a begins", "a ends", "b begins", "b ends"]);
  });
});

describe("Keeper", () => {
  it("L13 the keeper sends accepted commands that were not sent to their lane, and starts none before its turn", async () => {
    const key = new TurnKey(parked);
    const letGo = key.gate("a");
    await key.ask("a");
    await key.seenBy("a begins");
    const unsent = dieAt("A03 accept committed, not enqueued");
    await expect(key.ask("b")).rejects.toThrow();
    expect(unsent.died()).toBe(true);
    await key.ask("c");
    await keeperRound();
    await keeperRound();
    expect(await key.stands(({ depth }) => depth === 2)).toMatchObject({ state: "waiting", depth: 2 });
    expect(await key.reaches("b", "accepted")).toBe("accepted");
    expect(await key.seen()).toEqual(["a begins"]);
    letGo();
    expect((await key.seenBy("b ends")).slice(2)).toEqual(["c begins", "c ends", "b begins", "b ends"]);
  });

  it("L14 the keeper starts a command that its lane had started and the platform has lost", async () => {
    const key = new TurnKey(parked);
    const id = await key.ask("a");
    await key.reaches("a", "complete");
    await (await (probeEnv as unknown as { TURN_PARKED: Workflow }).TURN_PARKED.get(id)).delete();
    await rows("UPDATE millrace_instances SET status = 'accepted', seen = 0, check_at = 0 WHERE id = ?1", id);
    await keeperRound();
    expect(await key.reaches("a", "complete")).toBe("complete");
    expect(await key.seen()).toEqual(["a begins", "a ends"]);
  });

  it("L14 the keeper does not start a replayed command outside its lane", async () => {
    const key = new TurnKey(blocked);
    const letGo = key.gate("a");
    await key.askAll("a", "b", "c");
    const { head } = await key.stands(({ state }) => state === "waiting");
    await lanes.steer(probeEnv, key.by, key.name, { verb: "skip_head", id: head?.id, reason: "A test." });
    await key.letters();
    const by = { ...key.by, scopes: SCOPES };
    const letter = (await deadLetters.list(probeEnv, by, { limit: 200 })).items.find(({ instance_id }) => instance_id === key.id("b"));
    await deadLetters.replay(probeEnv, app, by, letter?.id ?? "", { reason: "A test." });
    await key.stands(({ depth }) => depth === 2);
    for (let looks = 0; looks < 2; looks++) {
      await rows("UPDATE millrace_instances SET check_at = 0 WHERE id = ?1", key.id("b"));
      await keeperRound();
    }
    expect(await key.stands(({ depth }) => depth === 2)).toMatchObject({ state: "waiting" });
    expect(await key.seen()).toEqual(["a begins"]);
    letGo();
    expect((await key.seenBy("b ends")).slice(2)).toEqual(["c begins", "c ends", "b begins", "b ends"]);
  });

  it("L14 the keeper does not start a command that an operator skipped in its lane, also while its dead letter is delayed", async () => {
    const key = new TurnKey(parked);
    const letGo = key.gate("a");
    await key.askAll("a", "b");
    const { head } = await key.stands(({ state }) => state === "waiting");
    await runInDurableObject(key.stub, (object) => {
      const lane = object as unknown as { lanes: ReadonlyMap<string, object> };
      const own = lane.lanes.get("parked");
      const stuck = { ...own, keepLetter: () => Promise.reject(new Error("The database is unavailable.")) };
      Object.assign(lane, { lanes: new Map([["parked", stuck]]) });
    });
    await lanes.steer(probeEnv, key.by, key.name, { verb: "skip_head", id: head?.id, reason: "A test." });
    await keeperRound();
    expect(await key.seen()).not.toContain("b begins");
    letGo();
    await key.seenBy("a ends");
    expect(await key.seen()).not.toContain("b begins");
  });
});

it("L15 an operator's action on a lane is audited, also when the database was unavailable at that moment", async () => {
  const key = new TurnKey(parked);
  failAt("L15 lane changed, not audited", new Error("The database is unavailable."));
  const { action_id: actionId } = await lanes.steer(probeEnv, key.by, key.name, { verb: "pause", reason: "Two of everything." });
  const audited = async () => (await actions.list(probeEnv, key.by, {})).items.find(({ id }) => id === actionId);
  expect(await audited()).toBeUndefined();
  await key.die();
  const awayUntil = Date.now();
  expect(await key.stands(() => true)).toMatchObject({ state: "paused" });
  expect(await until(audited, (row) => row !== undefined)).toMatchObject({
    verb: "pause",
    actor: "tess",
    target: `parked/${key.key}`,
    reason: "Two of everything.",
    result: "applied",
  });
  // A read of the audit includes all earlier actions.
  expect(Date.parse((await audited())?.at ?? "")).toBeGreaterThanOrEqual(awayUntil);
});
