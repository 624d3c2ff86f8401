/** Research that is younger than this is reused. */
export const FRESH_MS = 7 * 86_400_000;

/**
 * `requested`: research of the keyword has started. `reused`: work on an article has started with existing research. `skipped`: the keyword
 * needs no work. `held`: work on the keyword waits until the brand's limit allows more work. `resumed`: the keyword was held back, and work
 * on the keyword has now started. `refused`: work on the keyword could not be started, and needs an operator.
 */
export const VERDICTS = ["requested", "reused", "skipped", "held", "resumed", "refused"] as const;
export type Verdict = (typeof VERDICTS)[number];

/** The data on which a decision is based. */
export interface Grounds {
  content_id?: string;
  research_id?: string;
  /** The id of the instance that researches the keyword. */
  instance_id?: string;
  drafts?: number;
  on_their_way?: number;
  max_drafts?: number;
}

export interface Decided {
  verdict: Verdict;
  /** The reason for the decision in one sentence. */
  reason: string;
  grounds: Grounds;
}

/** An agent's record of one keyword. */
export interface KnownKeyword {
  /** The id of the keyword's published article. */
  live?: string;
  /** The id of the keyword's draft that waits for publication. */
  draft?: string;
  /** The id of the keyword's article that is being written. */
  writing?: string;
  /** The id of the instance that researches the keyword. */
  researching?: string;
  /** The name of the cycle whose request for the keyword is held back. */
  heldBy?: string;
  /** The keyword's newest research, with its time in milliseconds. */
  research?: { id: string; at: number };
}

/** The brand's maximum of unfinished work, and the present amount of unfinished work. */
export interface Room {
  drafts: number;
  on_their_way: number;
  max_drafts: number;
}

/** Decides about a keyword. The function contains the whole rule, and the first condition that applies decides. */
export function decide(known: KnownKeyword, room: Room, at: number): Decided {
  const { live, draft, writing, researching, heldBy, research } = known;
  if (live) return skipped("The keyword has a published article.", { content_id: live });
  if (draft) return skipped("The keyword has a draft that waits for publication.", { content_id: draft });
  if (writing) return skipped("An article about the keyword is being written.", { content_id: writing });
  if (researching) return skipped("The keyword's research is running.", { instance_id: researching });
  if (heldBy !== undefined) return skipped(`The keyword is already held back, since the cycle “${heldBy}”.`, {});
  if (room.drafts + room.on_their_way >= room.max_drafts) return { verdict: "held", reason: full(room), grounds: { ...room } };
  if (research && at - research.at < FRESH_MS) {
    const reason = `The keyword's research is ${age(at - research.at)} old, younger than 7 days: it is used again, without a new search.`;
    return { verdict: "reused", reason, grounds: { research_id: research.id, ...room } };
  }
  const reason = "The keyword has no article, draft, fresh research or work in progress: it is researched.";
  return { verdict: "requested", reason, grounds: { ...room } };
}

/** Decides about a keyword that was requested outside a cycle. The brand's limit does not apply, even if a cycle holds the keyword back. */
export function decideAsked({ heldBy: _, ...known }: KnownKeyword, at: number): Decided {
  const { grounds, ...decided } = decide(known, { drafts: 0, on_their_way: 0, max_drafts: 1 }, at);
  const { content_id, research_id, instance_id } = grounds;
  return {
    ...decided,
    grounds: { ...(content_id && { content_id }), ...(research_id && { research_id }), ...(instance_id && { instance_id }) },
  };
}

/** Decides about a held keyword again. The result is undefined while the keyword remains held. */
export function decideAgain(known: KnownKeyword, room: Room, at: number): Decided | undefined {
  const { heldBy: _, ...others } = known;
  const decided = decide(others, room, at);
  if (decided.verdict === "held") return undefined;
  if (decided.verdict === "skipped") return decided;
  const how = decided.verdict === "reused" ? decided.reason : "It is researched.";
  const taken = `${count(room.drafts, "draft waits", "drafts wait")} and ${count(room.on_their_way, "is on its way", "are on their way")}`;
  return { ...decided, verdict: "resumed", reason: `There is room again: ${taken}, of ${room.max_drafts}. ${how}` };
}

function skipped(reason: string, grounds: Grounds): Decided {
  return { verdict: "skipped", reason, grounds };
}

function full({ drafts, on_their_way, max_drafts }: Room): string {
  const taken = `${count(drafts, "draft waits", "drafts wait")} and ${count(on_their_way, "is on its way", "are on their way")}`;
  return `${taken}, and the brand allows ${max_drafts}: it is begun when one is published, rejected or given up.`;
}

function count(number: number, one: string, many: string): string {
  return `${number} ${number === 1 ? one : many}`;
}

function age(ms: number): string {
  const days = Math.floor(ms / 86_400_000);
  if (days > 0) return count(days, "day", "days");
  const hours = Math.floor(ms / 3_600_000);
  return hours > 0 ? count(hours, "hour", "hours") : "less than an hour";
}
