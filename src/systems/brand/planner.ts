import type { CycleBook, CycleEntry } from "./cycles.ts";
import { type Decided, decide, decideAgain, decideAsked } from "./decide.ts";
import type { Decision, DecisionLog } from "./decision-log.ts";
import { keywordKey } from "./keyword.ts";
import { type AskedKeyword, askedRequest, type Cycle, refusedAsRepeated, requestOf } from "./requests.ts";
import type { BrandSettings } from "./settings.ts";
import type { BrandState, KeywordRequest } from "./state.ts";

/** The decision about one keyword of a cycle. */
export type PlannedKeyword = Pick<Decision, "keyword" | "verdict" | "reason">;

/**
 * Decides which keywords get an article. The planner writes each decision and the resulting requests into the agent's tables, within the
 * caller's transaction.
 */
export class Planner {
  readonly #state: BrandState;
  readonly #log: DecisionLog;
  readonly #cycles: CycleBook;
  readonly #researcher: () => string;

  /** `researcher` is the name of the workflow that researches a keyword. */
  constructor(state: BrandState, log: DecisionLog, cycles: CycleBook, researcher: () => string) {
    this.#state = state;
    this.#log = log;
    this.#cycles = cycles;
    this.#researcher = researcher;
  }

  /** Decides for each keyword of a cycle whether it gets an article. */
  plan(asked: Cycle, keywords: readonly string[], settings: BrandSettings, now: number): PlannedKeyword[] {
    const planned = keywords.map((keyword) => this.#plan(asked, keyword, settings, now));
    this.#cycles.plan(asked, planned, now);
    return planned.map(({ request: _, ...told }) => told);
  }

  #plan(asked: Cycle, keyword: string, settings: BrandSettings, now: number): PlannedKeyword & CycleEntry {
    const { cycle } = asked;
    const request = requestOf(asked, keyword, this.#researcher());
    let decided = decide(this.#state.known(this.#state.name(keyword)), this.#state.room(settings.max_drafts), now);
    if (decided.verdict !== "skipped" && !this.#begin(request, decided, now)) decided = refusedAsRepeated(cycle, request.instance_id);
    this.#log.add(cycle, keyword, decided, now);
    const { verdict, reason } = decided;
    const isRequest = verdict !== "skipped" && verdict !== "refused";
    return { keyword, verdict, reason, request: isRequest ? request.instance_id : null };
  }

  /** Returns the decision about a keyword outside a cycle, without writing it. */
  askedFor({ keyword }: AskedKeyword, now: number): Decided {
    return decideAsked(this.#state.known(this.#state.name(keyword)), now);
  }

  /** Decides whether a keyword that was requested outside a cycle gets an article. */
  admit(asked: AskedKeyword, now: number): Decided {
    const { keyword, cycle, instance_id } = asked;
    if (this.#state.asked(instance_id)) return { verdict: "requested", reason: "This instance researches the keyword.", grounds: {} };
    const decided = this.askedFor(asked, now);
    if (decided.verdict !== "skipped") {
      this.#state.ask({ ...askedRequest(asked), reuse: decided.grounds.research_id ?? null }, "sent", now);
    }
    this.#log.add(cycle, keyword, decided, now);
    return decided;
  }

  /**
   * Starts held requests until the brand's limit of drafts is reached. Requests start by priority, and requests with equal priority in
   * order of arrival.
   */
  resume({ max_drafts }: BrandSettings, now: number): void {
    for (const { instance_id, spelled, cycle } of this.#state.requests("held")) {
      const decided = decideAgain(this.#state.known(keywordKey(spelled)), this.#state.room(max_drafts), now);
      if (!decided) return;
      const { verdict, grounds } = decided;
      this.#state.move(instance_id, "held", verdict === "skipped" ? "dropped" : "to_send", now, grounds.research_id);
      if (verdict === "skipped") this.#cycles.decided(instance_id, "skipped");
      this.#log.add(cycle, spelled, decided, now);
    }
  }

  #begin(request: KeywordRequest, { verdict, grounds }: Decided, now: number): boolean {
    return this.#state.ask({ ...request, reuse: grounds.research_id ?? null }, verdict === "held" ? "held" : "to_send", now);
  }
}
