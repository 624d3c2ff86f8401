import { DurableObject } from "cloudflare:workers";
import { defineConsumer, defineEvent, defineQueue, type EngineEnv, on, project, publishEvents, type Routed } from "millrace";
import { catalog } from "millrace/worker";
import * as z from "zod";

const decision = z.object({ request: z.string().min(1), partner: z.string().min(1), bid_cents: z.int().positive() });
type Decision = z.infer<typeof decision>;
const queue = defineQueue({ name: "route-events" });

/** A request was given to a partner. */
const RouteDecided = defineEvent({ type: "route.decided", payload: decision, subject: ({ request }) => request, queue });

const decidedRow = ({ payload }: Routed<Decision>) => ({
  text: `INSERT INTO decisions (request, partner, bid_cents)
    SELECT value->>'request', value->>'partner', value->>'bid_cents' FROM json_each(?1) WHERE true ON CONFLICT DO NOTHING`,
  row: payload,
});
export const routeConsumer = defineConsumer({ queue, routes: [on(RouteDecided, project(decidedRow))] });
const routeCatalog = catalog({ consumers: [routeConsumer] });

export type Partner = { partner: string; bid_cents: number; budget_cents: number };

/** Below this health a partner gets no requests. Half of the requests succeed at 0.5. */
const LEAST_HEALTH = 0.5;
const SEND_MS = 1_000;
const REMEMBER_MS = 3_600_000;

/** Decides for one market which partner gets a request: the best bid by health, within the partner's budget. */
export class Router extends DurableObject<EngineEnv> {
  readonly #sql = this.ctx.storage.sql;
  /** The copy that decisions read: no query of another service is on their way. */
  #partners: Map<string, Partner & { spent_cents: number }> | undefined;
  /** Only in memory: after a restart each partner counts as healthy until it fails again. */
  readonly #health = new Map<string, number>();
  /** True while this object has set its alarm. */
  #isArmed = false;

  /** Stores the partners with their bids and budgets. The spent amounts remain. */
  configure(tenantId: string, partners: readonly Partner[]): void {
    this.ctx.storage.kv.put("tenant", tenantId);
    this.#sql.exec(SCHEMA);
    for (const { partner, bid_cents, budget_cents } of partners) this.#sql.exec(UPSERT, partner, bid_cents, budget_cents);
    this.#partners = undefined;
  }

  /** The partner for a request, the same for a repeated one; null if none has budget and health. */
  decide(request: string): Decision | null {
    const partners = this.#known();
    const [before] = this.#sql.exec<Decision>("SELECT request, partner, bid_cents FROM decided WHERE request = ?", request);
    if (before) return before;
    const score = ({ partner, bid_cents }: Partner) => bid_cents * this.#healthOf(partner);
    const [best] = [...partners.values()]
      .filter((one) => one.spent_cents + one.bid_cents <= one.budget_cents && this.#healthOf(one.partner) >= LEAST_HEALTH)
      .sort((one, other) => score(other) - score(one));
    if (!best) return null;
    const { partner, bid_cents } = best;
    // One write: the decision, its budget and the alarm. The response waits for it.
    this.#sql.exec("INSERT INTO decided VALUES (?, ?, ?, ?, 0)", request, partner, bid_cents, Date.now());
    this.#sql.exec("UPDATE partners SET spent_cents = spent_cents + ? WHERE partner = ?", bid_cents, partner);
    best.spent_cents += bid_cents;
    if (!this.#isArmed) void this.ctx.storage.setAlarm(Date.now() + SEND_MS);
    this.#isArmed = true;
    return { request, partner, bid_cents };
  }

  /** Notes whether the partner served a request. A result weighs a fifth. */
  report(partner: string, served: boolean): void {
    this.#health.set(partner, 0.8 * this.#healthOf(partner) + (served ? 0.2 : 0));
  }

  /** Publishes the decisions, up to a hundred at once. A decision that is sent twice is one event, by its key. */
  override async alarm(): Promise<void> {
    this.#isArmed = false;
    const owed = this.#sql.exec<Decision>("SELECT request, partner, bid_cents FROM decided WHERE sent = 0 LIMIT 100").toArray();
    this.#sql.exec("DELETE FROM decided WHERE sent = 1 AND at < ?", Date.now() - REMEMBER_MS);
    if (owed.length === 0) return;
    await this.ctx.storage.setAlarm(Date.now() + SEND_MS);
    const by = { tenantId: this.ctx.storage.kv.get<string>("tenant") ?? "", source: "router" };
    const events = owed.map((payload) => ({ type: RouteDecided.type, payload, idempotencyKey: payload.request }));
    await publishEvents(this.env, routeCatalog, by, events);
    for (const { request } of owed) this.#sql.exec("UPDATE decided SET sent = 1 WHERE request = ?", request);
  }

  #healthOf(partner: string): number {
    return this.#health.get(partner) ?? 1;
  }

  #known(): Map<string, Partner & { spent_cents: number }> {
    if (this.#partners) return this.#partners;
    this.#sql.exec(SCHEMA);
    const rows = this.#sql.exec<Partner & { spent_cents: number }>("SELECT * FROM partners").toArray();
    this.#partners = new Map(rows.map((row) => [row.partner, row]));
    return this.#partners;
  }
}

const UPSERT = `INSERT INTO partners VALUES (?, ?, ?, 0)
  ON CONFLICT DO UPDATE SET bid_cents = excluded.bid_cents, budget_cents = excluded.budget_cents`;
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS partners (partner TEXT PRIMARY KEY, bid_cents INTEGER, budget_cents INTEGER, spent_cents INTEGER);
  CREATE TABLE IF NOT EXISTS decided (request TEXT PRIMARY KEY, partner TEXT, bid_cents INTEGER, at INTEGER, sent INTEGER);
  CREATE INDEX IF NOT EXISTS decided_owed ON decided (sent, at)`;
