import { setTimeout as sleep } from "node:timers/promises";
import { apiOf, type Batch } from "../api-client.ts";
import { Refusal } from "../command.ts";
import { paint, say, seconds } from "../terminal.ts";
import { numberFrom } from "./arguments.ts";
import { contactsFile } from "./batch/file.ts";
import { watchMemory } from "./batch/memory.ts";
import { chapter, type Stage, type Story } from "./story.ts";

const ROWS = 100_000;
const KILLS = 3;
/** Rows of the largest file, and kills of the longest story, that end within its patience. */
const MOST = { rows: 1_000_000, kills: 6 };
const BATCH = "spring-list";
/** The moment of a kill is met closely; for all else it is enough to see how far it is. */
const KILL_LOOK_MS = 25;
const LOOK_EVERY_MS = 200;
const SAY_EVERY_MS = 1000;
/** After a kill the keeper looks at an instance that has not moved for ten seconds. */
const WITHIN_MS = 180_000;

export const batch: Story = {
  title: "a hundred thousand rows through three kills (--rows 20000 for fewer)",
  options: ["--rows", "--kills"],
  vars: { KEEPER_PERIOD_MS: "1000" },
  tell,
};

async function tell(stage: Stage): Promise<void> {
  const rows = numberFrom(stage.args, "batch", "rows", ROWS, MOST.rows);
  const kills = numberFrom(stage.args, "batch", "kills", KILLS, MOST.kills);
  const file = contactsFile(rows);
  const api = () => apiOf(stage.engine.url, stage.engine.token);
  const memory = watchMemory(() => stage.engine.runtime());
  try {
    chapter(1, `A file of ${count(rows)} contacts is uploaded; ${count(file.broken.length)} of its rows have no address.`);
    say(`  ${megabytes(file.text.length)}, streamed into the bucket. The engine's runtime holds ${memory.peakMb()} MB before it.`);
    const began = Date.now();
    // Its answer may come after the first kill, or never: asked again, it is the same batch.
    const upload = () => api().importCsv(BATCH, "contacts", file.text);
    const accepted = upload().catch(() => undefined);

    chapter(2, `It is imported chunk by chunk, while the whole engine is killed ${times(kills, "time")} (kill -9).`);
    const done = await watchAndKill(stage, kills, () => api().batch(BATCH));
    const peakMb = memory.peakMb();
    await accepted;
    await upload();
    const took = Date.now() - began;

    chapter(3, "What is true in the end");
    const wrong = await differences(api(), done.batch, rows, file.broken);
    if (wrong.length > 0) throw new Refusal(`The demo did not end as it should. ${wrong.join(" ")}`);
    const good = rows - file.broken.length;
    say(`  ${count(good)} contacts, each written once (its revision is 1); ${count(file.broken.length)} rows reported, by their lines.`);
    say(`  ${count(Math.round(done.rate))} rows a second while it worked; ${seconds(took)} in all, kills and restarts included.`);
    say(`  Peak memory of the engine's runtime: ${peakMb} MB.`);
    say(`\n${paint("green", "✓")} ${paint("bold", `No row was lost and none was written twice, through ${times(kills, "kill")}.`)}`);
  } finally {
    memory.stop();
  }
}

/**
 * Follows the batch to its end and kills the engine on the way. Its rate is that of the time in which it moved, not of the time it lay
 * dead.
 */
async function watchAndKill(stage: Stage, expected: number, look: () => Promise<Batch>): Promise<{ batch: Batch; rate: number }> {
  const deadline = Date.now() + WITHIN_MS;
  let kills = 0;
  const worked = { ms: 0, rows: 0 };
  let saidAt = 0;
  let said = "";
  let last: { at: number; rows: number } | undefined;
  let dead = false;
  for (;;) {
    stage.stop.throwIfAborted();
    await sleep(kills < expected ? KILL_LOOK_MS : LOOK_EVERY_MS);
    const batch = await look().catch(() => undefined);
    const at = Date.now();
    if (at > deadline) throw new Refusal(`The import is not done after ${WITHIN_MS / 1000} s. The engine's log says more.`);
    if (!batch) continue;
    const { read_bytes: bytes, total_bytes: total } = batch;
    const rows = batch.rows.done + batch.rows.failed;
    const moved = { at: Date.parse(rows === 0 ? batch.created_at : batch.updated_at), rows };
    if (last === undefined) last = moved;
    else if (!dead || moved.rows > last.rows) {
      if (!dead) {
        worked.ms += moved.at - last.at;
        worked.rows += moved.rows - last.rows;
      }
      dead = false;
      last = moved;
    }
    const progress = `  ${percent(bytes, total)}  ${count(rows)} rows`;
    if (progress !== said && (at - saidAt > SAY_EVERY_MS || batch.state === "complete")) {
      saidAt = at;
      said = progress;
      say(progress);
    }
    if (batch.state === "complete" && kills === expected) return { batch, rate: worked.rows / (worked.ms / 1000) };
    if (batch.state === "complete")
      throw new Refusal(`The import was done after ${kills} of ${expected} kills. Give it more to do: --rows 100000`);
    if (batch.error) throw new Refusal(`The import stopped: ${batch.error.message}`);
    if (at > deadline)
      throw new Refusal(`After ${WITHIN_MS / 1000} s the import has read ${percent(bytes, total)}. The engine's log says more.`);
    if (kills < expected && bytes > ((total ?? 0) * (kills + 0.3)) / (expected + 0.5)) {
      kills++;
      say(`  ${paint("red", `kill -9 at ${percent(bytes, total)}`)}`);
      await stage.crash();
      // What the new engine says first is where the old one stopped; the time until it moves on is no work.
      last = undefined;
      dead = true;
    }
  }
}

/** Where what is there differs from what the file says, in sentences. */
async function differences(api: ReturnType<typeof apiOf>, batch: Batch, rows: number, broken: readonly number[]): Promise<string[]> {
  const good = rows - broken.length;
  const seen = { contacts: 0, rewritten: 0 };
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page: Awaited<ReturnType<typeof api.contacts>> = await api.contacts(cursor);
    seen.contacts += page.items.length;
    seen.rewritten += page.items.filter(({ revision }) => revision !== 1).length;
    cursor = page.next_cursor;
  }
  const reported = (await api.batchErrors(batch.batch_id))
    .split("\n")
    .filter(Boolean)
    .map((line) => (JSON.parse(line) as { line: number }).line);
  return [
    ...(seen.contacts === good ? [] : [`There are ${seen.contacts} contacts instead of ${good}.`]),
    ...(seen.rewritten === 0 ? [] : [`${seen.rewritten} contacts were written more than once.`]),
    ...(batch.rows.done === good ? [] : [`The batch counts ${batch.rows.done} rows instead of ${good}.`]),
    ...(batch.rows.failed === broken.length ? [] : [`The batch counts ${batch.rows.failed} broken rows instead of ${broken.length}.`]),
    ...(JSON.stringify(reported) === JSON.stringify(broken) ? [] : ["The report does not name the broken lines."]),
  ];
}

function count(number: number): string {
  return number.toLocaleString("en-US");
}

function times(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

function percent(part: number, whole: number | null): string {
  return `${Math.floor((100 * part) / (whole || 1))} %`.padStart(5);
}

function megabytes(bytes: number): string {
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}
