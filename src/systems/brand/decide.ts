/** Research younger than this is used again. */
export const FRESH_MS = 7 * 86_400_000;

/**
 * `requested`: researched, and so begun. `reused`: begun with research that is there. `skipped`: nothing to do. `held`: not begun until
 * there is room. `resumed`: was held, and is begun. `refused`: could not be begun, and will not be by itself.
 */
export const VERDICTS = ["requested", "reused", "skipped", "held", "resumed", "refused"] as const;
export type Verdict = (typeof VERDICTS)[number];

/** What a decision rests on. */
export interface Grounds {
  content_id?: string;
  research_id?: string;
  /** The instance that researches it. */
  instance_id?: string;
  drafts?: number;
  on_their_way?: number;
  max_drafts?: number;
}

export interface Decided {
  verdict: Verdict;
  /** In a sentence. */
  reason: string;
  grounds: Grounds;
}

/** What an agent knows of one keyword. */
export interface KnownKeyword {
  /** Its article that people can read. */
  live?: string;
  /** Its article that waits for publication. */
  draft?: string;
  /** Its article that is being written. */
  writing?: string;
  /** The instance that researches it. */
  researching?: string;
  /** The cycle in which it is held back. */
  heldBy?: string;
  /** Its newest research, and when that was made, in milliseconds. */
  research?: { id: string; at: number };
}

/** How much of what a brand allows is taken. */
export interface Room {
  drafts: number;
  on_their_way: number;
  max_drafts: number;
}

/** What to do about a keyword: the whole rule, in its order. */
export function decide(known: KnownKeyword, room: Room, at: number): Decided {
  const { live, draft, writing, researching, heldBy, research } = known;
  if (live) return skipped("It has an article that people can read.", { content_id: live });
  if (draft) return skipped("A draft about it waits for its publication.", { content_id: draft });
  if (writing) return skipped("An article about it is being written.", { content_id: writing });
  if (researching) return skipped("It is being researched already.", { instance_id: researching });
  if (heldBy !== undefined) return skipped(`It is held back already, since the cycle “${heldBy}”.`, {});
  if (room.drafts + room.on_their_way >= room.max_drafts) return { verdict: "held", reason: full(room), grounds: { ...room } };
  if (research && at - research.at < FRESH_MS) {
    const reason = `Its research is ${age(at - research.at)} old, younger than 7 days: it is used again, and nothing is searched or paid for.`;
    return { verdict: "reused", reason, grounds: { research_id: research.id, ...room } };
  }
  const reason = "It has no article, no draft and no fresh research, and nothing is under way: it is researched.";
  return { verdict: "requested", reason, grounds: { ...room } };
}

/** The same for one that a person has asked for beside all cycles: there is room for it, also where it was held back. */
export function decideAsked({ heldBy: _, ...known }: KnownKeyword, at: number): Decided {
  const { grounds, ...decided } = decide(known, { drafts: 0, on_their_way: 0, max_drafts: 1 }, at);
  const { content_id, research_id, instance_id } = grounds;
  return {
    ...decided,
    grounds: { ...(content_id && { content_id }), ...(research_id && { research_id }), ...(instance_id && { instance_id }) },
  };
}

/** What to do about a keyword that was held back; undefined while it still is. */
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
