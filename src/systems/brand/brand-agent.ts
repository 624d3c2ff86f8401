import { DurableObject } from "cloudflare:workers";
import { type Accepted, codeOf, type Envelope, type EventListener, enqueue, logLine, MillraceError, messageOf, query } from "millrace";
import type { Rewritten } from "millrace/operate";
import type { Catalog } from "millrace/worker";
import { BRAND_AGENT } from "../../messages/brand.ts";
import { ResearchCompleted, ResearchRequested } from "../../messages/research.ts";
import type { Person } from "../contacts/traces.ts";
import { Tables } from "../object-tables.ts";
import { type Decided, FRESH_MS } from "./decide.ts";
import { type Decision, type DecisionFilter, DecisionLog } from "./decision-log.ts";
import { brandOf, foldEvent } from "./fold.ts";
import { forgetInBrand } from "./forgotten-jobs.ts";
import { distinct } from "./keyword.ts";
import { Pacer } from "./pace.ts";
import { type PlannedKeyword, Planner } from "./planner.ts";
import { bounded, progressed, reconcile } from "./reconcile.ts";
import { type AskedKeyword, askedElsewhere, type Cycle, commandOf } from "./requests.ts";
import { type AgentRow, BRAND_SCHEMA } from "./schema.ts";
import { type BrandSettings, brandSettings, noteBrand } from "./settings.ts";
import { BrandState, type Counts, type KeywordRequest } from "./state.ts";
import { type Beliefs, progressOf, type Truth } from "./truth.ts";

export interface Audit {
  /** In milliseconds. */
  at: number;
  counts: Counts;
  /** What had been believed otherwise, in sentences: the first thousand of them. */
  findings: string[];
}

/** Commands accepted in one round trip. */
const SEND = 100;
/** While something is held back, the agent looks so often whether work on its way has come to nothing. */
const LOOK_EVERY_MS = 300_000;
/** Pauses after a round that failed, the last one again and again. */
const PAUSES_MS = [1_000, 5_000, 30_000, 120_000, LOOK_EVERY_MS] as const;

/**
 * The brain of one brand of one tenant: it decides which keywords are worth work, and when, and never works. What it decides and what is
 * to be sent are one write of its own storage; its alarm sends, and sends again what a crash left: the same request is one instance.
 */
export class BrandAgent extends DurableObject<Env> implements EventListener {
  protected readonly catalog: Catalog | undefined;
  readonly #sql = this.ctx.storage.sql;
  readonly #tables = new Tables(this.ctx.storage, "agent", BRAND_SCHEMA);
  readonly #state = new BrandState(this.#sql);
  readonly #log = new DecisionLog(this.#sql);
  readonly #planner = new Planner(this.#state, this.#log, () => this.#catalog().performer(ResearchRequested.type).name);
  readonly #pacer = new Pacer(this.#sql);
  /** Rounds that failed in a row. */
  #failures = 0;

  /** Decides a cycle, once. Answers undefined while the agent has not seen what D1 has of its brand: `reconcile` comes first. */
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
      this.#planner.resume(settings, now);
      const answer = distinct(cycle.keywords).map((keyword) => this.#planner.plan(cycle, keyword, settings, now));
      this.#sql.exec("INSERT INTO cycles (instance_id, at, answer) VALUES (?, ?, ?)", cycle.instance_id, now, JSON.stringify(answer));
      return answer;
    });
    // Nothing is awaited between what was decided and its alarm: they become durable together.
    if (planned) void this.ctx.storage.setAlarm(Date.now());
    return planned;
  }

  /**
   * Decides a keyword that was asked for beside all cycles, by the same rule: what is there, or under way, is not paid for again. What the
   * agent has asked for itself is to be done. Answers undefined while it has not seen what D1 has of its brand: `reconcile` comes first.
   */
  async admit(asked: AskedKeyword): Promise<Decided | undefined> {
    this.#make(asked.tenant_id, asked.brand);
    if (this.#self().acquainted === 0) return undefined;
    if (this.#planner.askedFor(asked, Date.now()).verdict === "skipped") {
      // What is believed under way may have come to nothing.
      const progress = await progressOf(this.env.DB, asked.tenant_id, this.#state.open());
      this.ctx.storage.transactionSync(() => progressed(this.#state, progress, Date.now()));
    }
    return this.ctx.storage.transactionSync(() => this.#planner.admit(asked, Date.now()));
  }

  /** Hears what happened. */
  async onEvent(envelope: Envelope): Promise<void> {
    this.#make(envelope.tenant_id, brandOf(envelope));
    this.ctx.storage.transactionSync(() => foldEvent(this.#state, envelope, this.#writer()));
    this.wake();
  }

  /** What may have changed is looked at: whether something that is held back may begin, and what a lost alarm has left unsent. */
  wake(): void {
    if (this.#tables.made && (this.#state.waiting() > 0 || this.#self().noted === 0)) void this.ctx.storage.setAlarm(Date.now());
  }

  beliefs(): Beliefs {
    if (!this.#tables.made) return { open: [], articles: [], research: [] };
    return { open: this.#state.open(), ...this.#state.believed() };
  }

  /** Sets right what is believed otherwise than it is. The instance that asks is answered the same each time. */
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

  /** The brand in numbers, and its last audit; undefined while the agent knows nothing. */
  state(): { counts: Counts; audit: Audit | undefined } | undefined {
    if (!this.#tables.made) return undefined;
    const [last] = this.#sql.exec<{ answer: string }>("SELECT answer FROM audits ORDER BY at DESC LIMIT 1");
    return { counts: this.#state.counts(), audit: last && (JSON.parse(last.answer) as Audit) };
  }

  decisions(filter: DecisionFilter): Decision[] {
    return this.#tables.made ? this.#log.list(filter) : [];
  }

  keywords(before: number, limit: number): ReturnType<BrandState["keywords"]> {
    return this.#tables.made ? this.#state.keywords(before, limit) : [];
  }

  /** Puts pseudonyms in the place of a person in the names of jobs: `forgetInBrand`. */
  forget(person: Person, apply: boolean): Rewritten {
    return this.#tables.made ? forgetInBrand(this.#sql, person, apply) : { changed: 0, waiting: 0, next: null };
  }

  erase(): Promise<boolean> {
    return this.#tables.erase();
  }

  /** Begins what may begin, and sends what is to be sent. */
  override async alarm(): Promise<void> {
    if (!this.#tables.made) return;
    try {
      await this.#round();
      this.#failures = 0;
      if (this.#state.held() > 0) await this.#wakeBy(Date.now() + LOOK_EVERY_MS);
    } catch (error) {
      const pause = PAUSES_MS[Math.min(this.#failures++, PAUSES_MS.length - 1)] ?? LOOK_EVERY_MS;
      logLine("error", { log: "brand_agent", code: codeOf(error), error: messageOf(error), again_in_ms: pause });
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
    await this.#lookAtOpenWork(tenant_id);
    for (;;) {
      const now = Date.now();
      const { due, delays, from } = this.ctx.storage.transactionSync(() => {
        this.#planner.resume(settings, now);
        return this.#leave(settings, now);
      });
      if (due.length === 0) return;
      const requests = due.map((request, index) => ({ ...commandOf(brand, request), delaySeconds: delays[index] ?? 0 }));
      const answers = await enqueue(this.env, this.#catalog(), { tenantId: tenant_id, source: BRAND_AGENT }, requests);
      const misconfigured = answers.find((answer) => codeOf(answer) === "config_invalid");
      this.ctx.storage.transactionSync(() => {
        for (const [index, request] of due.entries()) this.#sent(request, answers[index]);
        if (misconfigured) this.#pacer.goBack(from);
      });
      if (misconfigured) throw misconfigured;
    }
  }

  /** While something is held back: what has come to nothing makes room. */
  async #lookAtOpenWork(tenantId: string): Promise<void> {
    const now = Date.now();
    if (this.#state.held() === 0 || now - this.#self().looked_at < LOOK_EVERY_MS) return;
    const progress = await progressOf(this.env.DB, tenantId, this.#state.open());
    this.ctx.storage.transactionSync(() => {
      progressed(this.#state, progress, now);
      this.#sql.exec("UPDATE agent SET looked_at = ?", now);
    });
  }

  /** What is sent next, how long each is delayed, and from when on they were spread. */
  #leave({ rate_per_second }: BrandSettings, now: number): { due: KeywordRequest[]; delays: number[]; from: number } {
    const due = this.#state.requests("to_send", SEND);
    return { due, ...this.#pacer.spread(due.length, rate_per_second, now) };
  }

  /**
   * Notes what became of a command. One that is refused, or is another job's already, is a decision that people see, and counts no more.
   * One that this deployment lacks a binding for is left as it was: another deployment sends it.
   */
  #sent({ instance_id, cycle, spelled, correlation_id }: KeywordRequest, answer: Accepted | MillraceError | undefined): void {
    if (codeOf(answer) === "config_invalid") return;
    const now = Date.now();
    const reason = answer instanceof MillraceError ? answer.message : askedElsewhere(answer, correlation_id);
    if (reason === undefined) return void this.#state.move(instance_id, "to_send", "sent", now);
    if (!this.#state.move(instance_id, "to_send", "dropped", now)) return;
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

  /** The workflow that writes an article from research. */
  #writer(): string {
    return this.#catalog().workflows.find(({ on }) => on.type === ResearchCompleted.type)?.name ?? "";
  }

  async #wakeBy(at: number): Promise<void> {
    const rings = await this.ctx.storage.getAlarm();
    if (rings === null || rings > at) await this.ctx.storage.setAlarm(at);
  }
}

/** The agent of a deployment, which can send its commands: `export class BrandAgent extends brandAgent(app) {}`. */
export function brandAgent(catalog: Catalog): typeof BrandAgent {
  return class extends BrandAgent {
    protected override readonly catalog = catalog;
  };
}
