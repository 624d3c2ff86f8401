import { defineStep, type EffectCall } from "millrace";
import * as z from "zod";
import { MAIN, type Platform } from "../messages/targets.ts";
import { accountTarget, type PublishedPost, recordKey, type SocialTarget } from "../providers/index.ts";
import { announcedSite, brandSettings } from "../systems/brand/settings.ts";
import { announcement } from "../systems/content/announcement.ts";
import { pageAt, pagesOf } from "../systems/content/article-pages.ts";
import { type ArticleKey, loadArticleOf } from "../systems/content/articles.ts";
import { brandAccount } from "../systems/content/sites.ts";

/** The input of an announcement: the article, the account, and the time of the request (ISO 8601, the same at every attempt). */
export type Announcement = ArticleKey & { brand: string; account: string; createdAt: string };

const announced = z.discriminatedUnion("state", [
  z.object({ state: z.literal("posted"), uri: z.string().min(1), url: z.url() }),
  z.object({ state: z.literal("skipped"), why: z.string() }),
]);

/** The result of an announcement: the post was made, or was skipped because the page is no longer published. */
export type Announced = z.infer<typeof announced>;

/** A prepared post, and the account for the post. */
interface Prepared<On extends Platform> {
  text: string;
  account: SocialTarget & { platform: On };
}

/** Reads the article and the account of a post. Errors: `config_invalid` if the brand does not have this account on this platform. */
async function targetOf<On extends Platform>(env: Cloudflare.Env, on: On, input: Announcement) {
  const [article, settings] = await Promise.all([loadArticleOf(env.DB, input), brandSettings(env.DB, input.tenantId, input.brand)]);
  const account = { ...brandAccount(settings, input, { name: input.account, platform: on }), platform: on };
  return { article, settings, account };
}

/**
 * Prepares a post with the URL of the page on the announced site. Every attempt to post checks that the page is still published, because an
 * attempt may run days after the previous attempt.
 */
async function prepared<On extends Platform>(
  env: Cloudflare.Env,
  on: On,
  input: Announcement,
): Promise<Prepared<On> | { skipped: string }> {
  const { article, settings, account } = await targetOf(env, on, input);
  const page = await pageAt(env.DB, article, announcedSite(settings)?.name ?? MAIN);
  if (page?.status !== "published") return { skipped: `The article is not published: its status is ${page?.status ?? article.status}.` };
  return { text: announcement({ ...article, url: page.url }, on), account };
}

/** Returns the function of a step that publishes the prepared post. If the page is not published, the function skips the post. */
function posting<On extends Platform>(
  on: On,
  post: (prepared: Prepared<On>, call: EffectCall<Announcement>) => Promise<PublishedPost>,
): (call: EffectCall<Announcement>) => Promise<Announced> {
  return async (call) => {
    const ready = await prepared(call.env, on, call.input);
    if ("skipped" in ready) return { state: "skipped", why: ready.skipped };
    const { uri, url } = await post(ready, call);
    return { state: "posted", uri, url };
  };
}

/** The record key on Bluesky is derived from the effect's key, so a repetition replaces the post. */
const onBluesky = defineStep({
  effect: "keyed",
  output: announced,
  run: posting("bluesky", async ({ text, account }, { input: { createdAt }, key, signal, trace, env }) => {
    const rkey = await recordKey(createdAt, key);
    return accountTarget(env, account).post({ text, createdAt, rkey }, { key, signal, trace });
  }),
});

/**
 * Mastodon recognises a key for one hour, and some versions respond to a repeated key with 500. Therefore the step searches the account's
 * posts before each repetition. Within the hour the key also prevents a second post while a request is still in progress.
 */
const onMastodon = defineStep({
  effect: "lookup",
  output: announced,
  run: posting("mastodon", ({ text, account }, { key, signal, trace, env }) =>
    accountTarget(env, account).post(text, { key, signal, trace }),
  ),
  async lookup({ input, key, signal, trace, env }: EffectCall<Announcement>): Promise<Announced | undefined> {
    // All the article's pages are searched, because after an earlier attempt the page may have been removed or the announced site may have
    // changed.
    const { article, account } = await targetOf(env, "mastodon", input);
    const urls = (await pagesOf(env.DB, input.tenantId, article)).map(({ url }) => url);
    const found = await accountTarget(env, account).find(urls, Date.parse(input.createdAt), { key, signal, trace });
    return found && { state: "posted", uri: found.uri, url: found.url };
  },
});

/**
 * X has no idempotency key, and not every plan of X includes a search. Therefore an effect with an unknown outcome waits until an operator
 * confirms or rejects the effect.
 */
const onX = defineStep({
  effect: "once",
  output: announced,
  run: posting("x", ({ text, account }, { key, signal, trace, env }) => accountTarget(env, account).post(text, { key, signal, trace })),
});

/** For each platform, the step that posts about an article with the guard that the platform supports. */
export const announceOn = { bluesky: onBluesky, mastodon: onMastodon, x: onX } satisfies Record<Platform, unknown>;
