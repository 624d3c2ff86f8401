import { defineCommand, defineEvent, ids } from "millrace";
import * as z from "zod";
import { brandEvents, smCommands } from "./queues.ts";

export const keyword = z
  .string()
  .trim()
  .min(1)
  .max(120)
  .refine((text) => !text.includes("\0"), "must not contain the character NUL")
  .meta({ examples: ["cold brew"] });
export const brandName = z
  .string()
  .max(60)
  .regex(/^[a-z0-9][a-z0-9-]*$/, "must be lower case letters, digits and dashes")
  .meta({ examples: ["acme"] });
/**
 * The name of a brand's round of work, such as a week or a campaign. If a keyword is requested again in the same cycle, no second workflow
 * starts.
 */
export const cycle = z
  .string()
  .min(1)
  .max(60)
  .meta({ examples: ["spring"] });

/** The priority of all commands that a cycle causes. */
export const priority = z.enum(["high", "normal", "low"]);
export type Priority = z.infer<typeof priority>;

/**
 * Submits keywords for a brand. The brand's agent decides which of the keywords to work on, and when. `priority` applies to all keywords of
 * the cycle.
 */
export const BrandCycle = defineCommand({
  type: "brand.cycle",
  payload: z.object({ brand: brandName, cycle, keywords: z.array(keyword).min(1).max(500), priority: priority.default("normal") }),
  key: ({ brand, cycle }) => `${brand}/${cycle}`,
  // The name of a cycle may be any text, and the text may mention a person. The correlation id outlives the cycle, so the id contains a
  // hash of such a name.
  correlation: ({ brand, cycle }) => `brand-cycle-${brand}-${/^[\w.-]+$/.test(cycle) ? cycle : ids.digest(cycle).slice(0, 12)}`,
  subject: ({ brand }) => brand,
  queue: smCommands,
});

/** The event that a keyword is trending in a brand's market. The brand's agent decides whether to work on the keyword. */
export const KeywordTrending = defineEvent({
  type: "keyword.trending",
  payload: z.object({ brand: brandName, keyword, seen_on: z.iso.date() }),
  subject: ({ brand, keyword }) => `${brand}/${keyword}`,
  queue: brandEvents,
  access: { scope: "enqueue" },
});

/**
 * Compares a brand's records with the state of the brand's agent, and corrects the state. `audit` names the audit. A schedule uses the
 * scheduled time as the name.
 */
export const BrandAudit = defineCommand({
  type: "brand.audit",
  payload: z.object({ brand: brandName, audit: z.string().min(1).max(100).default("now") }),
  key: ({ brand, audit }) => `${brand}/${audit}`,
  subject: ({ brand }) => brand,
  queue: smCommands,
});

/** The event with the result of a brand's audit. */
export const BrandAudited = defineEvent({
  type: "brand.audited",
  payload: z.object({
    brand: brandName,
    drafts: z.int().min(0),
    live: z.int().min(0),
    /** The corrections of the agent's state, as sentences. */
    findings: z.array(z.string().max(500)).max(100),
  }),
  subject: ({ brand }) => brand,
  queue: brandEvents,
});

const keywords = z.int().min(0);

/**
 * The event that every keyword of a cycle has an outcome. The event is emitted once for each round. A later `brand.cycle` of the same name
 * with new keywords begins the next round.
 */
export const BrandCycleEnded = defineEvent({
  type: "brand.cycle_ended",
  payload: z.object({
    brand: brandName,
    cycle,
    round: z.int().min(1),
    published: keywords,
    rejected: keywords,
    failed: keywords,
    skipped: keywords,
  }),
  subject: ({ brand, cycle }) => `${brand}/${cycle}`,
  queue: brandEvents,
});

/** The source of commands that a brand's agent sends. */
export const BRAND_AGENT = "brand-agent";
