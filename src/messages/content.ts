import { defineCommand, defineEvent } from "millrace";
import * as z from "zod";
import { brandName, keyword } from "./brand.ts";
import { brandEvents, publishCommands } from "./queues.ts";

const article = z.object({ content_id: z.string().min(1).max(64), brand: brandName });
const subject = ({ content_id }: { content_id: string }) => content_id;

/** A change of an article. `revision` counts its changes, so that events can arrive in any order. */
const change = article.extend({ keyword, revision: z.int().min(1) });

/** A draft is written and stored. */
export const ContentGenerated = defineEvent({ type: "content.generated", payload: change, subject, queue: brandEvents });

/** Publish a stored draft as a page, after a person's approval if the brand requires it. */
export const ContentPublish = defineCommand({ type: "content.publish", payload: article, key: subject, subject, queue: publishCommands });

/**
 * Remove the page of an article's published revision. It is a separate command, so that it works without the instance that published it.
 */
export const ContentUnpublish = defineCommand({
  type: "content.unpublish",
  payload: article.extend({ revision: z.int().min(1) }),
  key: ({ content_id, revision }) => `${content_id}/${revision}`,
  subject,
  queue: publishCommands,
  door: { scope: "operate", route: "POST /v1/articles/{id}/unpublish" },
});

/** The page is published. */
export const ContentPublished = defineEvent({
  type: "content.published",
  payload: change.extend({ url: z.url() }),
  subject,
  queue: brandEvents,
});

/** The page was removed. */
export const ContentUnpublished = defineEvent({ type: "content.unpublished", payload: change, subject, queue: brandEvents });

/** A draft was rejected, or its approval timed out. */
export const ContentRejected = defineEvent({ type: "content.rejected", payload: change, subject, queue: brandEvents });
