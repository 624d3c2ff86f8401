import { defineCommand, defineEvent } from "millrace";
import * as z from "zod";
import { brandEvents, socialCommands } from "./queues.ts";

const article = z.object({ content_id: z.string().min(1).max(64), brand: z.string().min(1).max(60) });

/** Announce an article on the brand's social account. */
export const SocialCreate = defineCommand({
  type: "social.create",
  payload: article,
  key: ({ content_id }) => content_id,
  subject: ({ content_id }) => content_id,
  queue: socialCommands,
});

/** The announcement is published. */
export const SocialPosted = defineEvent({
  type: "social.posted",
  payload: article.extend({ uri: z.string().min(1) }),
  subject: ({ content_id }) => content_id,
  queue: brandEvents,
});
