import { readFileSync } from "node:fs";
import type { Envelope } from "millrace";
import { event } from "../engine/event.ts";
import { pause } from "../proof/stage.ts";
import type { Answer } from "./worker.ts";
import { type Workshop, withEngine } from "./workshop.ts";

/** The number of messages sent together, and of concurrent messages. */
const BATCH = 50;
const UNDER_WAY = 150;
/**
 * One in this number of messages is a command, which starts an instance; the others are events, which are stored for waits. The memory and
 * the open files of the local platform grow with every instance: a soak of 20,000 instances measures that growth, not the engine.
 */
const COMMAND_EVERY = 5;
const LOOK_MS = 100;
const TENTHS = 10;
const PAGE_BYTES = 4096;
/** The timeout without progress, after which the soak is aborted. */
const STILL_MS = 60_000;

/** Latency from the sender until the event was stored, or until the instance that the command started was complete. */
interface Latency {
  p50_ms: number;
  p99_ms: number;
}

/** The outcome of a soak, as `--json` prints it. */
export interface SoakResult {
  messages: number;
  complete: number;
  seconds: number;
  /** The remaining items at the end: unsent messages, open instances, effects without outcome. */
  backlog: number;
  /** The runtime's memory after each tenth of the messages, and its growth per thousand messages. */
  rss_mb: number[];
  rss_slope_mb_per_1000: number;
  first_tenth: Latency;
  last_tenth: Latency;
  /** The last tenth's latency divided by the first's. */
  ratio_p50: number;
  ratio_p99: number;
}

/** Sends messages through the queues, without faults, and measures whether the engine becomes larger or slower. */
export function runSoak(messages: number, say: (line: string) => void): Promise<SoakResult> {
  return withEngine(async ({ engine, database, folder }) => {
    say(`The engine runs at ${engine.url}; its state is in ${folder}.`);
    const ended = () => database.rows<{ name: string; at: number }>(ENDED);
    const complete = async () => (await database.rows<{ n: number }>(`SELECT count(*) AS n FROM (${ENDED})`))[0]?.n ?? 0;
    const sentAt: number[] = [];
    const rss: number[] = [];
    const begunAt = Date.now();
    let done = 0;
    for (let movedAt = Date.now(); done < messages && Date.now() - movedAt < STILL_MS; ) {
      while (sentAt.length < messages && sentAt.length - done < UNDER_WAY) await sendSome(engine.url, sentAt, messages);
      await pause(LOOK_MS);
      const now = await complete();
      if (now > done) movedAt = Date.now();
      done = now;
      while (done >= ((rss.length + 1) * messages) / TENTHS) {
        rss.push(memoryOf(engine.runtime()));
        say(`${done} of ${messages} after ${Math.round((Date.now() - begunAt) / 1000)} s, ${rss.at(-1)} MB`);
      }
    }
    const seconds = Math.round((Date.now() - begunAt) / 1000);
    const tookMs = new Map((await ended()).map(({ name, at }) => [name, at - (sentAt[Number(name.slice(NAME.length))] ?? 0)]));
    const tenth = (nth: number) =>
      latencyOf(sentAt.flatMap((_, index) => (Math.floor((index * TENTHS) / messages) === nth ? (tookMs.get(nameOf(index)) ?? []) : [])));
    const [first, last] = [tenth(0), tenth(TENTHS - 1)];
    return {
      messages,
      complete: done,
      seconds,
      backlog: await backlogOf({ database }),
      rss_mb: rss,
      rss_slope_mb_per_1000: rounded(slope(rss) / (messages / TENTHS / 1000)),
      first_tenth: first,
      last_tenth: last,
      ratio_p50: rounded(last.p50_ms / first.p50_ms),
      ratio_p99: rounded(last.p99_ms / first.p99_ms),
    };
  });
}

/** Commands with complete instances, and stored events. */
const ENDED = `SELECT subject AS name, updated_at AS at FROM millrace_instances WHERE status = 'complete'
  UNION ALL SELECT subject AS name, received_at AS at FROM millrace_signals`;
const NAME = "soak-";
const nameOf = (index: number) => `${NAME}${index}`;

async function sendSome(url: string, sentAt: number[], messages: number): Promise<void> {
  const count = Math.min(BATCH, messages - sentAt.length);
  const bodies = Array.from({ length: count }, (_, index) => message(sentAt.length + index));
  for (const kind of ["command", "event"] as const) {
    const answer = await fetch(`${url}/door/send`, {
      method: "POST",
      body: JSON.stringify([`probe-${kind}s`, bodies.filter((one) => one.kind === kind)]),
    });
    const said = (await answer.json()) as Answer;
    if (!("gave" in said)) throw new Error(`The queue did not accept the messages: ${said.refused.message}`);
  }
  for (const { created_at } of bodies) sentAt.push(Date.parse(created_at));
}

/** A message in the form that an external producer sends. */
function message(index: number): Envelope {
  const name = nameOf(index);
  const said = event("probe.signal", name, { about: name, value: "soaked" });
  if (index % COMMAND_EVERY > 0) return said;
  return { ...said, kind: "command", message_type: "probe.follow", payload_inline: { name, step: "soaked" } };
}

async function backlogOf({ database }: Pick<Workshop, "database">): Promise<number> {
  const [open] = await database.rows<{ n: number }>(
    `SELECT (SELECT count(*) FROM millrace_outbox) + (SELECT count(*) FROM millrace_instances WHERE status <> 'complete')
       + (SELECT count(*) FROM millrace_inbox WHERE state NOT IN ('done', 'superseded')) + (SELECT count(*) FROM millrace_dead_letters) AS n`,
  );
  return open?.n ?? -1;
}

/** Resident memory of processes, in megabytes. */
function memoryOf(processes: readonly number[]): number {
  const pages = processes.map((pid) => Number(readFileSync(`/proc/${pid}/statm`, "utf8").split(" ")[1]));
  return Math.round((pages.reduce((sum, one) => sum + one, 0) * PAGE_BYTES) / 1024 / 1024);
}

function latencyOf(tookMs: number[]): Latency {
  const sorted = tookMs.sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return { p50_ms: at(0.5), p99_ms: at(0.99) };
}

/** Growth of a series of numbers per element, by least squares. */
function slope(figures: readonly number[]): number {
  const middle = (figures.length - 1) / 2;
  const mean = figures.reduce((sum, one) => sum + one, 0) / figures.length;
  const spread = figures.reduce((sum, _, index) => sum + (index - middle) ** 2, 0);
  return figures.reduce((sum, one, index) => sum + (one - mean) * (index - middle), 0) / Math.max(1, spread);
}

const rounded = (figure: number): number => Math.round(figure * 100) / 100;
