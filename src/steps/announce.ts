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

/** The result of an announcement: posted, or skipped because the page is no longer published. */
export type Announced = z.infer<typeof announced>;

/** A prepared post, and its account. */
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
 * Prepares a post with the URL of the page on the announced site. Every attempt to post checks that the page is still published, because it
 * may run days after the previous attempt.
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

/** Returns the code of a step that makes the prepared post, unless the page is not published. */
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

/** The record key on Bluesky is derived from the effect's key: a repetition replaces the post. */
const onBluesky = defineStep({
  effect: "keyed",
  output: announced,
  run: posting("bluesky", async ({ text, account }, { input: { createdAt }, key, signal, trace, env }) => {
    const rkey = await recordKey(createdAt, key);
    return accountTarget(env, account).post({ text, createdAt, rkey }, { key, signal, trace });
  }),
});

/**
 * Mastodon recognises a key for one hour, and some versions answer its repetition with 500. Therefore the account's posts are searched
 * before each repetition; within the hour the key also covers a request that is still in progress.
 */
const onMastodon = defineStep({
  effect: "lookup",
  output: announced,
  run: posting("mastodon", ({ text, account }, { key, signal, trace, env }) =>
    accountTarget(env, account).post(text, { key, signal, trace }),
  ),
  async lookup({ input, key, signal, trace, env }: EffectCall<Announcement>): Promise<Announced | undefined> {
    // The page may have been removed since an earlier attempt, or another site may be the announced one.
    const { article, account } = await targetOf(env, "mastodon", input);
    const urls = (await pagesOf(env.DB, input.tenantId, article)).map(({ url }) => url);
    const found = await accountTarget(env, account).find(urls, Date.parse(input.createdAt), { key, signal, trace });
    return found && { state: "posted", uri: found.uri, url: found.url };
  },
});

/** X has neither a key nor a search for every plan, so an unknown outcome waits for an operator, who confirms or rejects it. */
const onX = defineStep({
  effect: "once",
  output: announced,
  run: posting("x", ({ text, account }, { key, signal, trace, env }) => accountTarget(env, account).post(text, { key, signal, trace })),
});

/** Posts about an article on an account, with the guard that its platform supports. */
export const announceOn = { bluesky: onBluesky, mastodon: onMastodon, x: onX } satisfies Record<Platform, unknown>;
