import { defineCommand, defineEvent } from "millrace";
import * as z from "zod";
import { brandName, keyword } from "./brand.ts";
import { brandEvents, publishCommands } from "./queues.ts";
import { MAIN, siteKey, siteKind, targetName } from "./targets.ts";

const article = z.object({ content_id: z.string().min(1).max(64), brand: brandName });
const subject = ({ content_id }: { content_id: string }) => content_id;

/**
 * The payload of an event about a change of an article. `revision` increases with each change of the article, so that a reader can put
 * events in the right order.
 */
const change = article.extend({ keyword, revision: z.int().min(1) });

/** The event that the draft of an article is written and stored. `key_points` in the event are the key points of the research. */
export const ContentGenerated = defineEvent({
  type: "content.generated",
  payload: change.extend({
    title: z.string().max(200).default(""),
    description: z.string().max(500).default(""),
    key_points: z.array(z.string().max(300)).max(12).default([]),
    word_count: z.int().min(0).default(0),
  }),
  subject,
  queue: brandEvents,
});

/**
 * The command to publish a stored draft on the sites of its brand. If the brand requires an approval, a person must first approve the
 * draft. With `update` the command replaces the pages of an edited article, only on the sites where the article is published.
 */
export const ContentPublish = defineCommand({
  type: "content.publish",
  payload: article.extend({ update: z.boolean().optional() }),
  key: subject,
  subject,
  queue: publishCommands,
});

/**
 * The command to publish an approved article on one more site of its brand. With `update` the command acts only while the article is
 * published on that site. `occasion` is the key of the approved `content.publish` command, or names the request of an operator. No token
 * can send this command, because the command requires no approval.
 */
export const ContentPublishToSite = defineCommand({
  type: "content.publish_to_site",
  payload: article.extend({ site: targetName, kind: siteKind, occasion: z.string().min(1).max(450), update: z.boolean().optional() }),
  key: ({ occasion, site }) => `${occasion}/${site}`,
  subject,
  queue: publishCommands,
  access: { scope: null, route: "POST /v1/articles/{id}/publish" },
});

/**
 * The command to remove the page of an article's published revision from a site. This is a separate command, so that the removal works
 * without the instance that published the page.
 */
export const ContentUnpublish = defineCommand({
  type: "content.unpublish",
  payload: article.extend({ revision: z.int().min(1), site: targetName.default(MAIN) }),
  key: ({ content_id, revision, site }) => siteKey(`${content_id}/${revision}`, site),
  subject,
  queue: publishCommands,
  access: { scope: "operate", route: "POST /v1/articles/{id}/unpublish" },
});

/**
 * The event that an article's page is published on a site of the brand. `platform` is the software of the published site. With `again`, the
 * page was already on the site before.
 */
export const ContentPublished = defineEvent({
  type: "content.published",
  payload: change.extend({
    site: targetName.default(MAIN),
    platform: z.enum(["store", "wordpress", "http"]),
    url: z.url(),
    again: z.boolean().default(false),
  }),
  subject,
  queue: brandEvents,
});

/** The event that an article's page was removed from a site of the brand. */
export const ContentUnpublished = defineEvent({
  type: "content.unpublished",
  payload: change.extend({ site: targetName.default(MAIN) }),
  subject,
  queue: brandEvents,
});

/** The event that a draft was rejected, or that the request for its approval timed out. */
export const ContentRejected = defineEvent({ type: "content.rejected", payload: change, subject, queue: brandEvents });
