import { defineCommand, defineEvent } from "millrace";
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
/** A round of work: a week, a campaign. The same keyword in the same cycle is the same work. */
export const cycle = z
  .string()
  .min(1)
  .max(60)
  .meta({ examples: ["spring"] });

/** Consider these keywords for a brand: the brand's agent decides which are worth work, and when. */
export const BrandCycle = defineCommand({
  type: "brand.cycle",
  payload: z.object({ brand: brandName, cycle, keywords: z.array(keyword).min(1).max(500) }),
  key: ({ brand, cycle }) => `${brand}/${cycle}`,
  subject: ({ brand }) => brand,
  queue: smCommands,
});

/** A keyword draws attention, as whatever watches a brand's market says: the brand's agent decides whether it is worth work. */
export const KeywordTrending = defineEvent({
  type: "keyword.trending",
  payload: z.object({ brand: brandName, keyword, seen_on: z.iso.date() }),
  subject: ({ brand, keyword }) => `${brand}/${keyword}`,
  queue: brandEvents,
  door: { scope: "enqueue" },
});

/** Look at what a brand has, and set what its agent believes right. A schedule names each audit by its time; by hand, `audit` does. */
export const BrandAudit = defineCommand({
  type: "brand.audit",
  payload: z.object({ brand: brandName, audit: z.string().min(1).max(100).default("now") }),
  key: ({ brand, audit }) => `${brand}/${audit}`,
  subject: ({ brand }) => brand,
  queue: smCommands,
});

/** A brand was audited: what was found. */
export const BrandAudited = defineEvent({
  type: "brand.audited",
  payload: z.object({
    brand: brandName,
    drafts: z.int().min(0),
    live: z.int().min(0),
    /** What the agent had believed otherwise and now knows, in sentences. */
    findings: z.array(z.string().max(500)).max(100),
  }),
  subject: ({ brand }) => brand,
  queue: brandEvents,
});

/** Who asks for what a brand's agent has decided: the source of its commands. */
export const BRAND_AGENT = "brand-agent";
