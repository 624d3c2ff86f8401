import { defineLane, laneObject, laneOf } from "millrace/lanes";
import type { LaneEnv } from "../../packages/millrace/src/lanes/client.ts";
import { countingWrites, written } from "./count.ts";
import { handle, untilSeen } from "./handler.ts";
import type { SeedLane } from "./seed-lane.ts";

export { SeedLane, SeedLaneKv } from "./seed-lane.ts";

interface Body {
  n: number;
  series: string;
}

const bench = defineLane<Body>({ name: "bench", onFailure: "block", queue: (batch) => handle(batch) });

export class Lanes extends laneObject([bench]) {
  constructor(ctx: DurableObjectState, env: unknown) {
    super(countingWrites(ctx), env);
  }
}

type Seed = DurableObjectNamespace<SeedLane>;
interface BenchEnv extends LaneEnv {
  SEED: Seed;
  SEED_KV: Seed;
}

interface Sender {
  send(body: Body): Promise<unknown>;
}

/** Returns a lane of one of the compared designs; each series has a separate lane. */
function sideOf(env: BenchEnv, side: string, series: string): Sender {
  if (side === "lane") return laneOf(env, bench, series);
  const seed = (side === "seed" ? env.SEED : env.SEED_KV).getByName(series);
  return { send: (body) => seed.send(body) };
}

/** Messages per second from the first send to the last delivery. All messages are sent to one key at the same time. */
async function burst(sender: Sender, series: string, count: number): Promise<number> {
  await sender.send({ n: -1, series: `${series} warm` });
  await untilSeen(`${series} warm`, 1);
  const from = Date.now();
  await Promise.all(Array.from({ length: count }, (_, n) => sender.send({ n, series })));
  await untilSeen(series, count);
  return (count / (Date.now() - from)) * 1000;
}

/** Messages stored per second, if each call stores one message and the calls are sequential. */
async function singly(sender: Sender, series: string, count: number): Promise<number> {
  const from = Date.now();
  for (let n = 0; n < count; n++) await sender.send({ n, series });
  const rate = (count / (Date.now() - from)) * 1000;
  await untilSeen(series, count);
  return rate;
}

/** Messages stored per second, if each call stores a hundred messages. */
async function batched(env: BenchEnv, series: string, count: number): Promise<number> {
  const lane = laneOf(env, bench, series);
  const from = Date.now();
  for (let at = 0; at < count; at += 100) {
    await lane.sendBatch(Array.from({ length: 100 }, (_, n) => ({ body: { n: at + n, series } })));
  }
  const rate = (count / (Date.now() - from)) * 1000;
  await untilSeen(series, count);
  return rate;
}

/** The time in ms from each send of a message to the delivery of the message, at fifty messages per second. */
async function dispatch(sender: Sender, series: string, count: number): Promise<number[]> {
  const sent: number[] = [];
  for (let n = 0; n < count; n++) {
    // The pause varies, so that sends are not aligned with the clock's whole milliseconds.
    await scheduler.wait(17 + (n % 7));
    sent.push(Date.now());
    await sender.send({ n, series });
  }
  const seen = await untilSeen(series, count);
  return sent.map((at, n) => (seen[n] ?? Number.NaN) - at);
}

/** Rows written per message. `way` selects whether messages are sent slowly one by one, all at the same time, or a hundred per call. */
async function rows(
  env: BenchEnv,
  { way, series, count, keyed }: { way: string; series: string; count: number; keyed: boolean },
): Promise<object> {
  const lane = laneOf(env, bench, series);
  const message = (n: number) => ({ body: { n, series }, ...(keyed && { idempotencyKey: `key ${n}` }) });
  const send = (n: number) => lane.send(message(n).body, message(n));
  // The first message makes the lane write its one-time rows, so that the measurement excludes these rows.
  await lane.send({ n: -1, series: `${series} warm` }, keyed ? { idempotencyKey: "warm" } : {});
  await untilSeen(`${series} warm`, 1);
  const before = { ...written };
  if (way === "slowly") for (let n = 0; n < count; n++) await send(n).then(() => untilSeen(series, n + 1));
  if (way === "at once") await Promise.all(Array.from({ length: count }, (_, n) => send(n)));
  if (way === "by hundreds") {
    for (let at = 0; at < count; at += 100) await lane.sendBatch(Array.from({ length: 100 }, (_, n) => message(at + n)));
  }
  await untilSeen(series, count);
  return { rows: (written.rows - before.rows) / count, alarms: (written.alarms - before.alarms) / count };
}

export default {
  async fetch(request: Request, env: BenchEnv) {
    const { pathname, searchParams } = new URL(request.url);
    const [, what = "", side = ""] = pathname.split("/");
    const count = Number(searchParams.get("count"));
    const series = crypto.randomUUID().slice(0, 8);
    switch (what) {
      case "healthz":
        return Response.json({ ok: true });
      case "burst":
        return Response.json(await burst(sideOf(env, side, series), series, count));
      case "singly":
        return Response.json(await singly(sideOf(env, side, series), series, count));
      case "batched":
        return Response.json(await batched(env, series, count));
      case "dispatch":
        return Response.json(await dispatch(sideOf(env, side, series), series, count));
      case "rows":
        return Response.json(await rows(env, { way: decodeURIComponent(side), series, count, keyed: searchParams.has("keyed") }));
      default:
        return new Response(null, { status: 404 });
    }
  },
};
