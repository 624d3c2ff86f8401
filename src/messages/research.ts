import { defineCommand, defineEvent } from "millrace";
import * as z from "zod";
import { brandName, cycle, keyword } from "./brand.ts";
import { keyPart } from "./key-part.ts";
import { brandEvents, gatherfeedCommands } from "./queues.ts";

/**
 * The command to research one keyword for a brand. `reuse` names recent research that exists already. The workflow uses that research
 * again, without a search and without cost.
 */
export const ResearchRequested = defineCommand({
  type: "research.requested",
  payload: z.object({ brand: brandName, keyword, cycle: cycle.default("first"), reuse: z.string().min(1).max(64).optional() }),
  key: ({ brand, keyword, cycle }) => `${brand}/${keyPart(cycle)}/${keyword.toLowerCase()}`,
  subject: ({ brand, keyword }) => `${brand}/${keyword}`,
  queue: gatherfeedCommands,
});

/** The event that a keyword's research is stored, so that an article can be written from this research. */
export const ResearchCompleted = defineEvent({
  type: "research.completed",
  payload: z.object({ research_id: z.string(), brand: brandName, keyword }),
  subject: ({ brand, keyword }) => `${brand}/${keyword}`,
  queue: brandEvents,
});
