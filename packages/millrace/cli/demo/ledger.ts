import { setTimeout as sleep } from "node:timers/promises";
import { type Api, type AppendResult, apiOf, type FactStatement } from "../api-client.ts";
import { Refusal } from "../command.ts";
import { column, paint, say, seconds } from "../terminal.ts";
import { chapter, type Stage, type Story } from "./story.ts";

const ENTITIES = ["partner/mill", "partner/press", "partner/roastery"];
const FACTS_EACH = 4;
const LOOK_EVERY_MS = 100;
const ARRIVE_MS = 15_000;
/** A ledger sends again what nobody confirmed within ten seconds. */
const HEAL_MS = 30_000;
const REBUILD_MS = 30_000;

export const ledger: Story = { title: "facts, their projection, a rebuild", tell };

async function tell(stage: Stage): Promise<void> {
  const { stop } = stage;
  let api = apiOf(stage.engine.url, stage.engine.token);
  const began = Date.now();

  const facts = ENTITIES.flatMap((entity) => Array.from({ length: FACTS_EACH }, (_, index) => payout(entity, `sale-${index + 1}`)));
  const [first] = facts as [FactStatement];
  chapter(1, `${facts.length} facts for ${ENTITIES.length} entities, one of them stated twice, and three that are wrong, in one request`);
  const wrong = [
    { ...first, payload: { partner: "mill", amount_cents: 1 } },
    { ...first, fact_id: "sale-9", payload: { partner: "mill", amount_cents: "much" } },
    { ...first, fact_id: "sale-10", type: "payot" },
  ];
  const asked = [...facts, first, ...wrong];
  const results = await api.appendFacts(asked as FactStatement[]);
  for (const [index, result] of results.entries()) say(`  ${lineOf(asked[index] as FactStatement, result)}`);
  expectCounts(results, { appended: facts.length, duplicate: 1, refused: 3 });

  chapter(2, "They arrive in the projection");
  await arrived(api, facts.length, ARRIVE_MS, stop);
  await showLag(api);

  chapter(3, "Everything is stated once more, in another order");
  const again = await api.appendFacts(facts.toSorted((a, b) => order(a) - order(b)));
  expectCounts(again, { appended: 0, duplicate: facts.length, refused: 0 });
  say(`  ${again.length} of ${again.length} are known: ${paint("green", "nothing was appended")}.`);

  chapter(4, "A fact is answered, and in the same moment the engine is killed");
  const last = payout("partner/mill", "sale-last");
  const [answer] = await api.appendFacts([last]);
  if (!answer || !("sequence" in answer)) throw new Refusal("The fact was refused.");
  const killedAt = Date.now();
  await stage.crash();
  say(`  ${lineOf(last, answer)}`);
  say(paint("dim", "  kill -9: the queue's memory is gone, and the message with it. The engine is started again."));
  api = apiOf(stage.engine.url, stage.engine.token);
  await arrived(api, facts.length + 1, HEAL_MS, stop);
  say(`  The fact is there, ${seconds(Date.now() - killedAt)} after the kill: its ledger sends again what nobody has confirmed.`);

  chapter(5, "The projection is rebuilt from the ledgers by one command, while somebody reads it");
  const before = await api.facts();
  const request = await api.rebuild("demo");
  say(paint("dim", `  POST /v1/projections/facts/rebuild  {"request":"demo"}  → ${request.instance_id}\n`));
  const looks = await rebuilt(api, request.instance_id, before.length, stop);
  const after = await api.facts();
  if (JSON.stringify(after) !== JSON.stringify(before)) throw new Refusal("The rows are not the same as before.");
  say(`  ${after.length} rows were held against their ledgers: ${paint("green", "each is what it was")}.`);
  say(paint("dim", `  The list was read ${looks} times meanwhile, and missed none of them.`));

  chapter(6, "What is true in the end");
  const kept = await Promise.all(ENTITIES.map((entity) => api.ledger(entity)));
  for (const { entity, last, unconfirmed } of kept)
    say(`  ${column(entity, 18)} ${last} facts, ${unconfirmed.projections + unconfirmed["fact-processing"]} unconfirmed`);
  const held = kept.reduce((sum, { last }) => sum + last, 0);
  if (held !== after.length) throw new Refusal(`The ledgers hold ${held} facts, the projection ${after.length}.`);
  say(
    `\n${paint("green", "✓")} ${paint("bold", `Every fact is there once, kill and rebuild included, in ${seconds(Date.now() - began)}.`)}`,
  );
}

/** A payout: nothing follows from it, so what is counted is what was stated. */
function payout(entity: string, fact_id: string): FactStatement {
  const payload = { partner: entity.split("/")[1] ?? entity, amount_cents: 1250 };
  return { fact_id, entity, type: "payout", occurred_at: "2026-10-01T09:30:00.000Z", payload };
}

/** An order that looks like none, and is the same each time. */
function order({ entity, fact_id }: FactStatement): number {
  return [...`${fact_id}${entity}`].reduce((sum, letter) => (sum * 31 + (letter.codePointAt(0) ?? 0)) % 1009, 7);
}

function lineOf({ entity, fact_id }: FactStatement, result: AppendResult): string {
  const name = `${column(entity, 18)} ${column(fact_id, 10)}`;
  if ("problem" in result) return `${name} ${paint("yellow", `${result.status}`)}  ${result.problem.detail}`;
  return `${name} ${paint("green", `${result.status}`)}  ${result.duplicate ? "known already, as" : "appended as"} number ${result.sequence}`;
}

function expectCounts(results: readonly AppendResult[], expected: Record<"appended" | "duplicate" | "refused", number>): void {
  const found = { appended: 0, duplicate: 0, refused: 0 };
  for (const result of results) found["problem" in result ? "refused" : result.duplicate ? "duplicate" : "appended"]++;
  for (const [what, count] of Object.entries(expected)) {
    const seen = found[what as keyof typeof found];
    if (seen !== count) throw new Refusal(`${seen} facts were answered as ${what} instead of ${count}.`);
  }
}

/** Waits until the projection has so many rows: no more, no fewer. */
async function arrived(api: Api, count: number, withinMs: number, stop: AbortSignal): Promise<void> {
  const rows = await watch(api.facts, (found) => found.length >= count, withinMs, stop);
  if (rows.length !== count) throw new Refusal(`After ${withinMs / 1000} s the projection has ${rows.length} rows instead of ${count}.`);
}

async function showLag(api: Api): Promise<void> {
  const { rows, lag_ms } = await api.factsProjection();
  if (!lag_ms) throw new Refusal("The projection says nothing of its lag.");
  say(`  ${rows} rows; from the ledger's clock to the row p50 ${lag_ms.p50} ms, p95 ${lag_ms.p95} ms, at most ${lag_ms.max} ms`);
  say(paint("dim", "  The queue waits up to a second to fill a batch: a hundred facts are one round trip to the database."));
}

/** Waits until the rebuild is over. Answers how often the list was read meanwhile, and found whole. */
async function rebuilt(api: Api, id: string, count: number, stop: AbortSignal): Promise<number> {
  let looks = 0;
  const { status, error } = await watch(
    async () => {
      const [instance, rows] = await Promise.all([api.instance(id), api.facts()]);
      if (rows.length !== count) throw new Refusal(`During the rebuild the list had ${rows.length} rows instead of ${count}.`);
      looks++;
      return instance;
    },
    (found) => found.status === "complete" || found.status === "errored",
    REBUILD_MS,
    stop,
  );
  if (status !== "complete") throw new Refusal(`The rebuild is ${status}${error ? `: ${error.message}` : ""}.`);
  return looks;
}

/** Looks until what it sees is right, or the time is up; answers what it saw last. */
async function watch<T>(look: () => Promise<T>, right: (seen: T) => boolean, withinMs: number, stop: AbortSignal): Promise<T> {
  for (const deadline = Date.now() + withinMs; ; await sleep(LOOK_EVERY_MS)) {
    stop.throwIfAborted();
    const seen = await look();
    if (right(seen) || Date.now() > deadline) return seen;
  }
}
