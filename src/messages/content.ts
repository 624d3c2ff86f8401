import * as z from "zod";
import { defineCommand, defineEvent } from "../engine/index.ts";
import { brandEvents, publishCommands } from "./queues.ts";

const article = z.object({ content_id: z.string().min(1).max(64), brand: z.string().min(1).max(60) });

/** A draft is written and stored. */
export const ContentGenerated = defineEvent({
  type: "content.generated",
  payload: article,
  subject: ({ content_id }) => content_id,
  queue: brandEvents,
});

/** Publish a stored draft as a page. */
export const ContentPublish = defineCommand({
  type: "content.publish",
  payload: article,
  key: ({ content_id }) => content_id,
  subject: ({ content_id }) => content_id,
  queue: publishCommands,
});

/** The page is up. */
export const ContentPublished = defineEvent({
  type: "content.published",
  payload: article.extend({ url: z.url() }),
  subject: ({ content_id }) => content_id,
  queue: brandEvents,
});
