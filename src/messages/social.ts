import { defineCommand, defineEvent } from "millrace";
import * as z from "zod";
import { brandEvents, socialCommands } from "./queues.ts";
import { MAIN, type Platform, platform, targetName } from "./targets.ts";

const target = z.object({
  content_id: z.string().min(1).max(64),
  brand: z.string().min(1).max(60),
  account: targetName.default(MAIN),
  platform: platform.default("bluesky"),
});

/** The command to announce an article on one of the brand's social accounts. */
export const SocialCreate = defineCommand({
  type: "social.create",
  payload: target,
  key: ({ content_id, account, platform }) => socialKey(content_id, { name: account, platform }),
  subject: ({ content_id }) => content_id,
  queue: socialCommands,
});

/**
 * The event that the announcement of an article is published. `uri` identifies the post on its platform, and `post_url` is the post's
 * public web page.
 */
export const SocialPosted = defineEvent({
  type: "social.posted",
  payload: target.extend({ uri: z.string().min(1), post_url: z.url() }),
  subject: ({ content_id }) => content_id,
  queue: brandEvents,
});

/** Returns the key of an article's post on an account. Accounts with the same name on different platforms are different accounts. */
export function socialKey(contentId: string, { name, platform }: { name: string; platform: Platform }): string {
  return name === MAIN && platform === "bluesky" ? contentId : `${contentId}/${platform}/${name}`;
}
