import { defineCommand, defineEvent } from "millrace";
import * as z from "zod";
import { brandName, keyword } from "./brand.ts";
import { brandEvents, publishCommands } from "./queues.ts";

const article = z.object({ content_id: z.string().min(1).max(64), brand: brandName });
const subject = ({ content_id }: { content_id: string }) => content_id;

/** What became of an article. `revision` counts that, so that whoever follows it may be told in any order. */
const change = article.extend({ keyword, revision: z.int().min(1) });

/** A draft is written and stored. */
export const ContentGenerated = defineEvent({ type: "content.generated", payload: change, subject, queue: brandEvents });

/** Publish a stored draft as a page; first ask a person, if the brand wants that. */
export const ContentPublish = defineCommand({ type: "content.publish", payload: article, key: subject, subject, queue: publishCommands });

/** Take an article's page down, the revision that is up. Its own command, so that nobody needs the instance that put it up. */
export const ContentUnpublish = defineCommand({
  type: "content.unpublish",
  payload: article.extend({ revision: z.int().min(1) }),
  key: ({ content_id, revision }) => `${content_id}/${revision}`,
  subject,
  queue: publishCommands,
  door: { scope: "operate", route: "POST /v1/articles/{id}/unpublish" },
});

/** The page is up. */
export const ContentPublished = defineEvent({
  type: "content.published",
  payload: change.extend({ url: z.url() }),
  subject,
  queue: brandEvents,
});

/** The page was taken down again. */
export const ContentUnpublished = defineEvent({ type: "content.unpublished", payload: change, subject, queue: brandEvents });

/** A person, or the passing of their time, said no to a draft. */
export const ContentRejected = defineEvent({ type: "content.rejected", payload: change, subject, queue: brandEvents });
