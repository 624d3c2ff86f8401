import { DurableObject } from "cloudflare:workers";
import { type Accepted, type Envelope, enqueue, errors, ids, logLine, MillraceError, publishEvents, query } from "millrace";
import type { Rewritten } from "millrace/operate";
import type { Catalog } from "millrace/worker";
import { BRAND_AGENT, BrandCycleEnded } from "../../messages/brand.ts";
import { ContentPublish, ContentPublishToSite } from "../../messages/content.ts";
import { keyPart } from "../../messages/key-part.ts";
import { ResearchCompleted, ResearchRequested } from "../../messages/research.ts";
import type { Person } from "../contacts/traces.ts";
import { Tables } from "../object-tables.ts";
import { CycleBook, type CycleKeyword, type CycleOutcomes, type CycleRow } from "./cycles.ts";
import { type Decided, FRESH_MS } from "./decide.ts";
import { type Decision, type DecisionFilter, DecisionLog } from "./decision-log.ts";
import { brandOf, foldEvent } from "./fold.ts";
import { forgetInBrand } from "./forgotten-jobs.ts";
import { distinct } from "./keyword.ts";
import { Pacer } from "./pace.ts";
import { type PlannedKeyword, Planner } from "./planner.ts";
import { bounded, progressed, reconcile } from "./reconcile.ts";
import { type AskedKeyword, askedElsewhere, type Cycle, commandOf } from "./requests.ts";
import { type AgentRow, BRAND_CHANGES, BRAND_SCHEMA } from "./schema.ts";
import { type BrandSettings, brandSettings, noteBrand } from "./settings.ts";
import { BrandState, type Counts, type KeywordRequest, type Totals } from "./state.ts";
import { type Beliefs, endedAmong, progressOf, revivedAmong, type Truth } from "./truth.ts";

export interface Audit {
  /** The time of the audit in milliseconds. */
  at: number;
  counts: Counts;
  /** The audit's corrections of the agent's state, as sentences. The list contains at most the first thousand corrections. */
  findings: string[];
}

/** A cycle with the count of keywords in each present state, and the outcomes that the last event about the cycle reported. */
export interface CycleView extends CycleRow {
  counts: CycleOutcomes & { running: number };
  told: CycleOutcomes | null;
}

/** Maximum number of commands that the agent sends at once. */
const SEND = 100;
/** Interval at which the agent checks for failed work while requests are held back or a cycle is running. */
const LOOK_EVERY_MS = 300_000;
/** The agent's delays after consecutive failed rounds. If the list is used up, the last delay repeats. */
const PAUSES_MS = [1_000, 5_000, 30_000, 120_000, LOOK_EVERY_MS] as const;

/**
 * The agent of one brand of one tenant. The agent decides which keywords to work on and when, and workflows do the work. One write to the
 * agent's storage stores a decision and its pending commands. The agent's alarm sends the commands. After a crash the alarm sends the
 * commands again, and a repeated command starts no second instance.
 */
export class BrandAgent extends DurableObject<Env> {
  protected readonly catalog: Catalog | undefined;
  readonly #sql = this.ctx.storage.sql;
  readonly #tables = new Tables(this.ctx.storage, "agent", BRAND_SCHEMA, BRAND_CHANGES);
  readonly #state = new BrandState(this.#sql);
  readonly #log = new DecisionLog(this.#sql);
  readonly #cycles = new CycleBook(this.#sql);
  readonly #planner = new Planner(this.#state, this.#log, this.#cycles, () => this.#catalog().performer(ResearchRequested.type).name);
  readonly #pacer = new Pacer(this.#sql);
  /** The number of consecutive failed rounds of the agent's alarm. */
  #failures = 0;

  /**
   * Decides about the keywords of a cycle, once. The result is undefined until the agent has received its brand's state from D1, so call
   * `reconcile` first.
   */
  async plan(cycle: Cycle): Promise<PlannedKeyword[] | undefined> {
    this.#make(cycle.tenant_id, cycle.brand);
    const settings = await brandSettings(this.env.DB, cycle.tenant_id, cycle.brand);
    const planned = this.ctx.storage.transactionSync(() => {
      const [known] = this.#sql.exec<{ answer: string }>("SELECT answer FROM cycles WHERE instance_id = ?", cycle.instance_id);
      if (known) return JSON.parse(known.answer) as PlannedKeyword[];
      if (this.#self().acquainted === 0) return undefined;
      const now = Date.now();
      this.#state.prune(now, FRESH_MS);
      this.#log.prune(now);
      this.#cycles.prune(now);
      this.#planner.resume(settings, now);
      const answer = this.#planner.plan(cycle, distinct(cycle.keywords), settings, now);
      this.#sql.exec("INSERT INTO cycles (instance_id, at, answer) VALUES (?, ?, ?)", cycle.instance_id, now, JSON.stringify(answer));
      return answer;
    });
    // There is no await between the decision and its alarm, so the decision and the alarm become durable together.
    if (planned) void this.ctx.storage.setAlarm(Date.now());
    return planned;
  }

  /**
   * Decides about a keyword that was requested outside a cycle, by the same rule, so that existing or running work is not paid for again.
   * The agent always admits its own requests. The result is undefined until the agent has received its brand's state from D1, so call
   * `reconcile` first.
   */
  async admit(asked: AskedKeyword): Promise<Decided | undefined> {
    this.#make(asked.tenant_id, asked.brand);
    if (this.#self().acquainted === 0) return undefined;
    if (this.#planner.askedFor(asked, Date.now()).verdict === "skipped") {
      // Work that is recorded as running may have failed since it was recorded.
      const progress = await progressOf(this.env.DB, asked.tenant_id, this.#state.open());
      this.ctx.storage.transactionSync(() => progressed(this.#state, progress, Date.now()));
    }
    return this.ctx.storage.transactionSync(() => this.#planner.admit(asked, Date.now()));
  }

  /** Updates the agent's records with the data of an event about the agent's brand. */
  async onEvent(envelope: Envelope): Promise<void> {
    this.#make(envelope.tenant_id, brandOf(envelope));
    this.ctx.storage.transactionSync(() => foldEvent(this.#state, envelope, this.#writer()));
    this.wake();
  }

  /**
   * Sets an alarm if commands wait, if a change may allow held requests to start, or if a cycle may end. The alarm also continues the work
   * of a lost alarm.
   */
  wake(): void {
    if (!this.#tables.made) return;
    if (this.#state.waiting() > 0 || this.#self().noted === 0 || this.#cycles.isDue()) void this.ctx.storage.setAlarm(Date.now());
  }

  beliefs(): Beliefs {
    if (!this.#tables.made) return { open: [], articles: [], research: [] };
    return { open: this.#state.open(), ...this.#state.believed() };
  }

  /**
   * Corrects the agent's records so that they match the brand's state in D1. A repeated audit by the same instance gets the same result.
   */
  reconcile(of: { tenant_id: string; brand: string; instance_id: string }, truth: Truth): Audit {
    this.#make(of.tenant_id, of.brand);
    const audit = this.ctx.storage.transactionSync(() => {
      const [known] = this.#sql.exec<{ answer: string }>("SELECT answer FROM audits WHERE instance_id = ?", of.instance_id);
      if (known) return JSON.parse(known.answer) as Audit;
      const at = Date.now();
      const findings = reconcile(this.#state, truth, at);
      this.#sql.exec("UPDATE agent SET acquainted = 1");
      const made: Audit = { at, counts: this.#state.counts(), findings: bounded(findings) };
      this.#sql.exec("INSERT INTO audits (instance_id, at, answer) VALUES (?, ?, ?)", of.instance_id, at, JSON.stringify(made));
      return made;
    });
    this.wake();
    return audit;
  }

  /** Returns the brand's counts, last audit and last cycle; undefined before the brand's first event. */
  state(): { counts: Counts; totals: Totals; audit: Audit | undefined; cycle: CycleRow | undefined } | undefined {
    if (!this.#tables.made) return undefined;
    const [last] = this.#sql.exec<{ answer: string }>("SELECT answer FROM audits ORDER BY at DESC LIMIT 1");
    const audit = last && (JSON.parse(last.answer) as Audit);
    const [cycle] = this.#cycles.list(Number.MAX_SAFE_INTEGER, 1);
    return { counts: this.#state.counts(), totals: this.#state.totals(), audit, cycle };
  }

  /** Returns a cycle with its keywords; undefined if the agent has not decided about the cycle, or has deleted the cycle. */
  cycle(cycle: string): (CycleView & { keywords: CycleKeyword[] }) | undefined {
    const row = this.#tables.made ? this.#cycles.find(cycle) : undefined;
    return row && { ...this.#view(row), keywords: this.#cycles.keywords(cycle) };
  }

  cycles(before: number, limit: number): CycleView[] {
    return this.#tables.made ? this.#cycles.list(before, limit).map((row) => this.#view(row)) : [];
  }

  #view(row: CycleRow): CycleView {
    return { ...row, counts: this.#cycles.counts(row.cycle), told: this.#cycles.lastEnd(row.cycle) };
  }

  decisions(filter: DecisionFilter): Decision[] {
    return this.#tables.made ? this.#log.list(filter) : [];
  }

  keywords(before: number, limit: number): ReturnType<BrandState["keywords"]> {
    return this.#tables.made ? this.#state.keywords(before, limit) : [];
  }

  /** Replaces a person's ids by pseudonyms in the names of jobs, by `forgetInBrand`. */
  forget(person: Person, apply: boolean): Rewritten {
    return this.#tables.made ? forgetInBrand(this.#sql, person, apply) : { changed: 0, waiting: 0, next: null };
  }

  erase(): Promise<boolean> {
    return this.#tables.erase();
  }

  /** Starts the held requests that the limit allows, and sends pending commands. */
  override async alarm(): Promise<void> {
    if (!this.#tables.made) return;
    try {
      await this.#round();
      this.#failures = 0;
      if (this.#state.held() > 0 || this.#cycles.isOpen()) await this.#wakeBy(Date.now() + LOOK_EVERY_MS);
    } catch (error) {
      const pause = PAUSES_MS[Math.min(this.#failures++, PAUSES_MS.length - 1)] ?? LOOK_EVERY_MS;
      logLine("error", { log: "brand_agent", code: errors.codeOf(error), error: errors.messageOf(error), again_in_ms: pause });
      await this.#wakeBy(Date.now() + pause);
    }
  }

  async #round(): Promise<void> {
    const { tenant_id, brand, noted } = this.#self();
    if (noted === 0) {
      await query(this.env.DB, noteBrand(tenant_id, brand));
      this.#sql.exec("UPDATE agent SET noted = 1");
    }
    const settings = await brandSettings(this.env.DB, tenant_id, brand);
    await this.#lookAtOpenWork(tenant_id, settings);
    for (;;) {
      const now = Date.now();
      const { due, delays, from } = this.ctx.storage.transactionSync(() => {
        this.#planner.resume(settings, now);
        return this.#leave(settings, now);
      });
      if (due.length === 0) break;
      const requests = due.map((request, index) => commandOf(brand, request, delays[index] ?? 0));
      const answers = await enqueue(this.env, this.#catalog(), { tenantId: tenant_id, source: BRAND_AGENT }, requests);
      const misconfigured = answers.find((answer) => errors.codeOf(answer) === "config_invalid");
      this.ctx.storage.transactionSync(() => {
        for (const [index, request] of due.entries()) this.#sent(request, answers[index]);
        if (misconfigured) this.#pacer.goBack(from);
      });
      if (misconfigured) throw misconfigured;
    }
    await this.#endCycles(tenant_id, brand, settings);
  }

  /**
   * Checks whether work that is recorded as running has failed. While requests are held back, failed work makes room for further requests.
   * While a cycle is running, a failure is the outcome of a keyword.
   */
  async #lookAtOpenWork(tenantId: string, settings: BrandSettings): Promise<void> {
    const now = Date.now();
    if (now - this.#self().looked_at < LOOK_EVERY_MS || (this.#state.held() === 0 && !this.#cycles.isOpen())) return;
    const progress = await progressOf(this.env.DB, tenantId, this.#state.open());
    this.ctx.storage.transactionSync(() => {
      progressed(this.#state, progress, now);
      this.#sql.exec("UPDATE agent SET looked_at = ?", now);
    });
    await this.#lookAtCycles(tenantId, settings);
  }

  /**
   * Updates the keywords of running cycles. Failed work that an operator has retried is in progress again. A draft has failed if its
   * publication has stopped on every site.
   */
  async #lookAtCycles(tenantId: string, { sites }: BrandSettings): Promise<void> {
    const publisher = this.#catalog().performer(ContentPublish.type).name;
    const toSite = this.#catalog().performer(ContentPublishToSite.type).name;
    const drafts = this.#cycles.drafts().map(({ content_id, at }) => ({
      content_id,
      instance_id: ids.instance(tenantId, publisher, content_id),
      at,
    }));
    const [revived, stopped] = [
      await revivedAmong(this.env.DB, tenantId, this.#cycles.failed()),
      await endedAmong(this.env.DB, tenantId, drafts),
    ];
    const further = drafts
      .filter(({ instance_id }) => stopped.has(instance_id))
      .flatMap(({ content_id, at }) =>
        sites.map(({ name }) => ({ content_id, instance_id: ids.instance(tenantId, toSite, `${content_id}/${name}`), at })),
      );
    const underWay = new Set(await revivedAmong(this.env.DB, tenantId, further));
    const onItsWay = new Set(further.flatMap(({ content_id, instance_id }) => (underWay.has(instance_id) ? content_id : [])));
    this.ctx.storage.transactionSync(() => {
      for (const id of revived) this.#state.revived(id, Date.now());
      for (const { content_id, instance_id } of drafts) {
        this.#cycles.stuck(content_id, stopped.has(instance_id) && !onItsWay.has(content_id));
      }
    });
  }

  /**
   * Ends each cycle in which all keywords have an outcome. Each end is published once, because the event's key contains the cycle and the
   * round.
   */
  async #endCycles(tenantId: string, brand: string, settings: BrandSettings): Promise<void> {
    // The status of a failed instance is read now, because an operator may have retried the instance in the meantime.
    if (this.#cycles.isDue()) await this.#lookAtCycles(tenantId, settings);
    this.ctx.storage.transactionSync(() => this.#cycles.end(Date.now()));
    const ends = this.#cycles.untold();
    if (ends.length === 0) return;
    const events = ends.map(({ correlation_id, causation_id, traceparent, tracestate, ...end }) => ({
      type: BrandCycleEnded.type,
      payload: { brand, ...end },
      idempotencyKey: `${brand}/${keyPart(end.cycle)}/${end.round}`,
      correlationId: correlation_id,
      uncorrelated: true,
      causationId: causation_id,
      traceparent,
      tracestate: tracestate ?? undefined,
    }));
    const answers = await publishEvents(this.env, this.#catalog(), { tenantId, source: BRAND_AGENT }, events);
    for (const [index, end] of ends.entries()) {
      const answer = answers[index];
      if (answer instanceof MillraceError) throw answer;
      this.#cycles.told(end);
    }
    if (this.#cycles.isDue()) await this.#wakeBy(Date.now());
  }

  /** Returns the commands to send next, the delay of each command, and the time from which the delays were computed. */
  #leave({ rate_per_second }: BrandSettings, now: number): { due: KeywordRequest[]; delays: number[]; from: number } {
    const due = this.#state.requests("to_send", SEND);
    return { due, ...this.#pacer.spread(due.length, rate_per_second, now) };
  }

  /**
   * Records the result of a command. If a command is refused, or its instance belongs to another job, the log of decisions shows the
   * reason, and the command no longer counts. If this deployment lacks the binding, the command remains for another deployment.
   */
  #sent({ instance_id, cycle, spelled, correlation_id }: KeywordRequest, answer: Accepted | MillraceError | undefined): void {
    if (errors.codeOf(answer) === "config_invalid") return;
    const now = Date.now();
    const reason = answer instanceof MillraceError ? answer.message : askedElsewhere(answer, correlation_id);
    if (reason === undefined) return void this.#state.move(instance_id, "to_send", "sent", now);
    if (!this.#state.move(instance_id, "to_send", "dropped", now)) return;
    this.#cycles.decided(instance_id, "refused");
    this.#log.add(cycle, spelled, { verdict: "refused", reason, grounds: { instance_id } }, now);
  }

  #self(): AgentRow {
    return this.#sql.exec<AgentRow>("SELECT * FROM agent").one();
  }

  #make(tenantId: string, brand: string): void {
    this.#tables.make();
    this.#sql.exec("INSERT INTO agent (id, tenant_id, brand) VALUES (1, ?, ?) ON CONFLICT DO NOTHING", tenantId, brand);
  }

  #catalog(): Catalog {
    if (this.catalog) return this.catalog;
    throw new MillraceError(
      "config_invalid",
      "The brand's agent has no catalog: export it from worker.ts as `class BrandAgent extends brandAgent(app) {}`.",
    );
  }

  #writer(): string {
    return this.#catalog().workflows.find(({ on }) => on.type === ResearchCompleted.type)?.name ?? "";
  }

  async #wakeBy(at: number): Promise<void> {
    const rings = await this.ctx.storage.getAlarm();
    if (rings === null || rings > at) await this.ctx.storage.setAlarm(at);
  }
}

/** Returns the agent class of a deployment, with its catalog: `export class BrandAgent extends brandAgent(app) {}`. */
export function brandAgent(catalog: Catalog): typeof BrandAgent {
  return class extends BrandAgent {
    protected override readonly catalog = catalog;
  };
}
