import { setTimeout as sleep } from "node:timers/promises";
import { Refusal } from "../command.ts";
import { column, paint, say, seconds } from "../terminal.ts";
import { type Budget, type DerivedApi, derivedApi } from "./derived/api.ts";
import * as job from "./derived/job.ts";
import { chapter, type Stage, type Story } from "./story.ts";

/** Facts travel by queue, whose batches wait a second to fill: cause, charge, budget. */
const WITHIN_MS = 15_000;
const LOOK_EVERY_MS = 100;

export const derived: Story = { title: "outcomes become charges and payouts; budgets; merged contacts", tell };

async function tell({ engine, stop }: Stage): Promise<void> {
  const api = derivedApi(engine.url, engine.token);
  const began = Date.now();

  chapter(1, "Rules are data: the first that matches decides an outcome.");
  await setUp(api);
  for (const sale of job.SALES) {
    const { version, rule, charge, payout } = await api.tryRules(job.outcomeOf(sale));
    const [charged, paid] = [charge?.amount_cents ?? null, payout?.amount_cents ?? null];
    expectSame(`what the rules make of ${sale.id}`, [rule, charged, paid], [sale.rule, sale.charge, sale.payout]);
    const words = `${sale.subtype} of ${money(sale.value)}`;
    say(`  ${column(words, 20)} version ${version}, rule “${rule}”: charge ${money(charged)}, payout ${money(paid)}`);
  }

  chapter(2, "Outcomes are stated; charges and payouts follow, each in its own ledger.");
  await api.state(job.saleFacts);
  await settles(
    api,
    job.SALES.flatMap(({ charge }) => charge ?? []),
    job.SALES.flatMap(({ payout }) => payout ?? []),
    stop,
  );
  await show(api);

  chapter(3, `The budget of ${job.SHOP} is asked before money is spent, and holds what it grants.`);
  const hold = await askUntilRefused(api);
  await api.state([job.orderFact(hold)]);
  const charges = [...job.SALES.flatMap(({ charge }) => charge ?? []), job.ORDER_CHARGE];
  await settles(api, charges, [...job.SALES.flatMap(({ payout }) => payout ?? []), job.ORDER_PAYOUT], stop);
  say("  The first order happened: its charge settled its hold, and what it did not need is free again.");
  showBudget(await api.budget(job.SHOP));

  chapter(4, `${job.RUSH_ASKS} asks at once for ${money(job.RUSH_CENTS)} each, where there is ${money(job.RUSH_LIMIT)}.`);
  const granted = await rush(api);
  expectSame("how many of the asks were granted", granted, job.RUSH_LIMIT / job.RUSH_CENTS);
  say(`  ${granted} granted, ${job.RUSH_ASKS - granted} refused: not a cent more than the limit, not a cent less.`);
  showBudget(await api.budget(job.RUSH));

  chapter(5, "Contacts are merged, in a chain and in a circle.");
  await api.state(job.mergeFacts);
  await until(`${Object.keys(job.KNOWN_AS).length} contacts are known as others`, () => knownAs(api), job.KNOWN_AS, stop);
  for (const [id, canonical] of Object.entries(job.KNOWN_AS)) say(`  ${column(id, 8)} is known as ${canonical}`);

  chapter(6, "Everything again: the same rules, facts and asks.");
  const before = await everything(api);
  await setUp(api);
  const stated = await api.state([...job.mergeFacts, job.orderFact(hold), ...job.saleFacts]);
  expectSame("how many facts were new", stated, 0);
  expectSame("how many asks were granted the second time", await rush(api), job.RUSH_LIMIT / job.RUSH_CENTS);
  const after = await everything(api);
  expectSame("what is true after everything came twice", after, before);
  say("  No new fact, no new charge, no new hold.");
  say(
    `\n${paint("green", "✓")} ${paint("bold", `Each outcome was charged once, nothing was oversold, and the contacts are who they are, in ${seconds(Date.now() - began)}.`)}`,
  );
}

async function setUp(api: DerivedApi): Promise<void> {
  await api.setRules(job.RULES);
  await api.setLimit(job.SHOP, job.SHOP_LIMIT);
  await api.setLimit(job.RUSH, job.RUSH_LIMIT);
}

/** Asks for one order after another until the answer is no; answers the first order's hold. */
async function askUntilRefused(api: DerivedApi): Promise<string> {
  const holds: string[] = [];
  for (let order = 1; ; order++) {
    const { granted, hold, remaining_cents } = await api.ask(job.SHOP, `order-${order}`, job.ORDER_CENTS);
    const verdict = granted ? paint("green", "granted") : paint("red", "refused");
    say(`  order-${order} asks for ${money(job.ORDER_CENTS)}: ${verdict}, ${money(remaining_cents)} left`);
    if (!granted) break;
    holds.push(hold ?? "");
  }
  expectSame("how many orders there was room for", holds.length, 2);
  return holds[0] ?? "";
}

/** A thousand asks in flight together; answers how many were granted. */
async function rush(api: DerivedApi): Promise<number> {
  const answers = await Promise.all(
    Array.from({ length: job.RUSH_ASKS }, (_, index) => api.ask(job.RUSH, `rush-${index}`, job.RUSH_CENTS)),
  );
  return answers.filter(({ granted }) => granted).length;
}

const amounts = async (api: DerivedApi, entity: string) =>
  (await api.ledger(entity)).map(({ payload }) => (payload as { amount_cents: number }).amount_cents).sort((a, b) => a - b);

/** Waits until these are the shop's charges and the partner's payouts, and the budget has counted the charges. */
async function settles(api: DerivedApi, charges: number[], payouts: number[], stop: AbortSignal): Promise<void> {
  const look = async () => [
    await amounts(api, `account/${job.SHOP}`),
    await amounts(api, `partner/${job.PARTNER}`),
    (await api.budget(job.SHOP)).spent_cents,
  ];
  const sorted = (list: number[]) => list.toSorted((a, b) => a - b);
  const spent = charges.reduce((sum, cents) => sum + cents, 0);
  await until("charges, payouts and the budget", look, [sorted(charges), sorted(payouts), spent], stop);
}

async function knownAs(api: DerivedApi): Promise<Record<string, string>> {
  const ids = Object.keys(job.KNOWN_AS);
  const contacts = await Promise.all(ids.map((id) => api.contact(id)));
  return Object.fromEntries(contacts.map(({ contact_id, canonical_id }) => [contact_id, canonical_id]));
}

/** All that the story has led to. */
async function everything(api: DerivedApi): Promise<unknown> {
  const ledgers = await Promise.all([`account/${job.SHOP}`, `partner/${job.PARTNER}`].map((entity) => api.ledger(entity)));
  const budgets = await Promise.all([job.SHOP, job.RUSH].map((account) => api.budget(account)));
  return { ledgers, budgets, contacts: await knownAs(api) };
}

async function show(api: DerivedApi): Promise<void> {
  for (const entity of [`account/${job.SHOP}`, `partner/${job.PARTNER}`]) {
    for (const { type, payload } of await api.ledger(entity)) {
      const { amount_cents, outcome_id, decided_by } = payload as {
        amount_cents: number;
        outcome_id: string;
        decided_by: { rule: string };
      };
      say(`  ${column(entity, 14)} ${column(type, 7)} ${money(amount_cents).padStart(7)}  for ${outcome_id}, by “${decided_by.rule}”`);
    }
  }
}

function showBudget({ account, limit_cents, spent_cents, held_cents, remaining_cents }: Budget): void {
  say(`  ${account}: limit ${money(limit_cents)}, spent ${money(spent_cents)}, held ${money(held_cents)}, left ${money(remaining_cents)}`);
}

/** Looks until it sees what it should. */
async function until(what: string, look: () => Promise<unknown>, expected: unknown, stop: AbortSignal): Promise<void> {
  for (const deadline = Date.now() + WITHIN_MS; ; await sleep(LOOK_EVERY_MS)) {
    stop.throwIfAborted();
    const seen = await look();
    if (JSON.stringify(seen) === JSON.stringify(expected)) return;
    if (Date.now() > deadline) expectSame(`${what}, after ${WITHIN_MS / 1000} s,`, seen, expected);
  }
}

function expectSame(what: string, seen: unknown, expected: unknown): void {
  const [was, should] = [JSON.stringify(seen), JSON.stringify(expected)];
  if (was !== should) throw new Refusal(`The demo did not end as it should: ${what} is ${was} instead of ${should}.`);
}

function money(cents: number | null): string {
  return cents === null ? "none" : (cents / 100).toFixed(2);
}
