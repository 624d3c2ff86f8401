import { ids } from "millrace";
import { expect, it } from "vitest";
import { recorderName } from "../../../packages/millrace/src/contract/recorder-name.ts";
import { recorderOf } from "../../../packages/millrace/src/recorder/client.ts";
import type { Attempt } from "../../../packages/millrace/src/store/inbox/entry.ts";
import { fresh, probeEnv, rows } from "../harness.ts";

const OUTCOME = { outputRef: null, statements: [], messages: [], error: null };
const withShards = (shards: string) => ({ ...probeEnv, RECORDER_SHARDS: shards }) as typeof probeEnv;

function attempt(instanceId: string, token: string): Attempt {
  const key = { instanceId, step: "act", item: "", generation: 1 };
  return { key, position: 0, after: null, caught: null, replay: "", readAt: null, class: "commit", token, epoch: 1, saysItRuns: false };
}

it("W07 two recorders that receive one key while RECORDER_SHARDS changes record it once, and both return that outcome", async () => {
  const id = ids.digest(fresh());
  const numbers = ["1", "7", "8", "100"];
  expect(new Set(numbers.map((number) => recorderName(withShards(number), id))).size).toBeGreaterThan(1);
  const answers = await Promise.all(
    numbers.map((number) => recorderOf(withShards(number), id).record(attempt(id, `by ${number}`), { ...OUTCOME, output: `"${number}"` })),
  );
  expect(
    answers.flatMap(({ mine, entry }) => (mine ? [entry] : [])),
    "the caller's own output is not sent back",
  ).toEqual([null]);
  const said = answers.map(({ mine, entry }, index) => (mine ? `"${numbers[index]}"` : entry?.output));
  const [row] = await rows<{ output: string }>("SELECT output FROM millrace_inbox WHERE instance_id = ?1", id);
  expect(said).toEqual(numbers.map(() => row?.output));
});

it("R02 each instance has one recorder, instances are distributed evenly, and an invalid RECORDER_SHARDS stops no instance", async () => {
  const instances = Array.from({ length: 4000 }, (_, index) => ids.digest("shard", String(index)));
  const shares = [...Map.groupBy(instances, (id) => recorderName(withShards("8"), id)).values()].map(({ length }) => length);
  expect(shares).toHaveLength(8);
  expect(Math.min(...shares)).toBeGreaterThan(400);
  expect(await recorderOf(withShards("many"), instances[0] ?? "").history(instances[0] ?? "")).toEqual({
    entries: [],
    left: null,
    lost: null,
    readAt: expect.any(Number),
  });
});

it("W25 of two concurrent replays that each assume to be the first of a run, one records its outcome, and the other queries first", async () => {
  const id = ids.digest(fresh());
  // The client is no promise, so an async function may return it.
  const recorder = await Promise.resolve(recorderOf(probeEnv, id));
  const by = (pass: string) => {
    const one = attempt(id, `${pass}-token`);
    return recorder.record({ ...one, key: { ...one.key, step: `of ${pass}` }, replay: pass, readAt: 0 }, { ...OUTCOME, output: "1" });
  };
  // The first unit is running, so that the next two are in one group.
  const answers = await Promise.all([recorder.standing(id), by("aaaaaaaa"), by("bbbbbbbb")]);
  expect(answers.slice(1).map((answer) => (answer as { mine: boolean }).mine)).toEqual([true, false]);
  expect(await rows("SELECT step FROM millrace_inbox WHERE instance_id = ?1", id)).toEqual([{ step: "of aaaaaaaa" }]);
});

it("W25 a replay that has read the inbox records and claims nothing if another replay has recorded since that read", async () => {
  const id = ids.digest(fresh());
  const recorder = recorderOf(probeEnv, id);
  const by = (replay: string, nth: number, readAt: number): Attempt => {
    const one = attempt(id, `${replay}-token`);
    return { ...one, key: { ...one.key, step: `${nth} of ${replay}` }, position: nth, replay, readAt };
  };
  const record = async (own: Attempt) => (await recorder.record(own, { ...OUTCOME, output: "1" })).mine;
  const { readAt } = await recorder.history(id);
  expect(await record(by("aaaaaaaa", 4, readAt))).toBe(true);
  expect(await record(by("bbbbbbbb", 5, readAt))).toBe(false);
  expect(await recorder.claim({ ...by("bbbbbbbb", 5, readAt), class: "once" }, 15_000, null)).toEqual({ mine: false, entry: null });
  // The first replay records a step that it began before, at an earlier position.
  await scheduler.wait(5);
  const { readAt: later } = await recorder.history(id);
  expect(await record(by("aaaaaaaa", 3, readAt))).toBe(true);
  expect(await record(by("bbbbbbbb", 5, later))).toBe(false);
  await scheduler.wait(5);
  expect(await record(by("bbbbbbbb", 5, (await recorder.history(id)).readAt))).toBe(true);
});
