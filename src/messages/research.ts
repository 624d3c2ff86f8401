import * as z from "zod";
import { defineCommand, defineEvent } from "../engine/index.ts";
import { brandEvents, gatherfeedCommands } from "./queues.ts";

const keyword = z.string().trim().min(1).max(120);
const brand = z
  .string()
  .max(60)
  .regex(/^[a-z0-9][a-z0-9-]*$/, "must be lower case letters, digits and dashes");

/** Research one keyword for a brand. `cycle` names the round of work (a week, a campaign): the same keyword in the same cycle is the same work. */
export const ResearchRequested = defineCommand({
  type: "research.requested",
  payload: z.object({ brand, keyword, cycle: z.string().min(1).max(60).default("first") }),
  key: ({ brand, keyword, cycle }) => `${brand}/${cycle}/${keyword.toLowerCase()}`,
  subject: ({ brand, keyword }) => `${brand}/${keyword}`,
  queue: gatherfeedCommands,
});

/** A keyword's research is stored and can be written from. */
export const ResearchCompleted = defineEvent({
  type: "research.completed",
  payload: z.object({ research_id: z.string(), brand, keyword }),
  subject: ({ brand, keyword }) => `${brand}/${keyword}`,
  queue: brandEvents,
});
