import { sendToLanes } from "millrace/lanes";
import { describe, expect, it } from "vitest";
import { blocking, parking } from "../../probe/lanes.ts";
import { fresh, until } from "../harness.ts";
import { LabLane, laneEnv, numbers } from "./lab.ts";

describe("Lanes", () => {
  it("a lane delivers messages in the order of their arrival, ten at a time", async () => {
    const lane = new LabLane(blocking);
    await lane.send(...numbers(25));
    await lane.is("empty");
    expect(lane.calls).toEqual([numbers(10), numbers(10, 10), numbers(5, 20)]);
  });

  it("a lane keeps the order of sends that are not awaited, and never runs two calls of its handler concurrently", async () => {
    let running = 0;
    let most = 0;
    const lane = new LabLane(blocking, async () => {
      most = Math.max(most, ++running);
      await scheduler.wait(1);
      running--;
    });
    await Promise.all(numbers(60).map((n) => lane.send(n)));
    await lane.is("empty");
    expect(lane.calls.flat()).toEqual(numbers(60));
    expect(most).toBe(1);
  });

  it("a lane accepts a thousand messages in one call, also when they are larger than one row", async () => {
    const lane = new LabLane(blocking);
    const long = "x".repeat(1000);
    const sent = await lane.client.sendBatch(numbers(1000).map((n) => ({ body: { n, note: lane.key, long } })));
    expect(new Set(sent.map(({ id }) => id)).size).toBe(1000);
    await lane.is("empty");
    expect(lane.calls.flat()).toEqual(numbers(1000));
  });

  it("a lane delivers each message with the id that its sender received, the time and the attempt number", async () => {
    const seen: { id: string; attempts: number; lateMs: number }[] = [];
    const lane = new LabLane(blocking, ({ messages }) => {
      for (const { id, attempts, timestamp } of messages) seen.push({ id, attempts, lateMs: Math.abs(Date.now() - timestamp.getTime()) });
    });
    const sent = [...(await lane.send(0, 1)), ...(await lane.send(2))];
    await lane.is("empty");
    expect(seen.map(({ id }) => id)).toEqual(sent.map(({ id }) => id));
    expect(seen.every(({ attempts, lateMs }) => attempts === 1 && lateMs < 5000)).toBe(true);
  });

  it("a lane reports its backlog in the metrics of a batch", async () => {
    const seen: MessageBatchMetrics[] = [];
    const lane = new LabLane(blocking, (batch) => void seen.push(batch.metadata.metrics));
    await lane.send(...numbers(12));
    await lane.is("empty");
    expect(seen.map(({ backlogCount }) => backlogCount)).toEqual([12, 2]);
    expect(seen.every(({ backlogBytes }) => backlogBytes > 100)).toBe(true);
  });

  it("a lane delays a message for the time that its sender sets, and delivers no later message before it", async () => {
    const lane = new LabLane(blocking);
    await lane.client.send({ n: 0, note: lane.key }, { delaySeconds: 0.3 });
    await lane.send(1);
    expect((await lane.object.look()).state).toBe("delayed");
    expect(lane.calls).toEqual([]);
    await lane.is("empty");
    expect(lane.calls.flat()).toEqual([0, 1]);
  });
});

describe("Several lanes", () => {
  it("lanes run in parallel: a blocked lane blocks no other key", async () => {
    let released = false;
    const stuck = new LabLane(blocking, async () => {
      while (!released) await scheduler.wait(5);
    });
    const other = new LabLane(blocking);
    await stuck.send(0);
    await until(
      () => Promise.resolve(stuck.calls.length),
      (calls) => calls === 1,
    );
    await other.send(0);
    await other.is("empty");
    expect((await stuck.object.look()).depth).toBe(1);
    released = true;
    await stuck.is("empty");
  });

  it("lanes with the same key and different tenants or names are separate, for any text of the key", async () => {
    const key = fresh('","');
    const about = (tenant?: string) => ({ key, tenant, body: { n: 0 } });
    const [one, two, none] = await sendToLanes(laneEnv, blocking, [about("acme"), about("globex"), about(), about("acme")]);
    const [other] = await sendToLanes(laneEnv, parking, [about("acme")]);
    const answers = [one, two, none, other].map((one) => (one && "sent" in one ? one.sent.length : one));
    expect(answers).toEqual([2, 1, 1, 1]);
  });

  it("lanes accept messages for two hundred keys in one call, and return an answer for each key", async () => {
    const run = fresh();
    const messages = numbers(400).map((n) => ({ key: n % 200 === 7 ? "k".repeat(501) : `${run} ${n % 200}`, body: { n } }));
    const answers = await sendToLanes(laneEnv, blocking, messages);
    expect(answers).toHaveLength(200);
    const refused = answers.filter((one) => "error" in one);
    expect(refused).toMatchObject([{ key: "k".repeat(501), error: { code: "invalid_payload" } }]);
    expect(answers.filter((one) => "sent" in one && one.sent.length === 2)).toHaveLength(199);
  });
});
