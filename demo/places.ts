import { Refusal } from "../packages/millrace/cli/command.ts";
import { column, paint, say } from "../packages/millrace/cli/terminal.ts";
import type { Article, BrandApi } from "./api.ts";
import { Timeline } from "./timeline.ts";
import { chapter, watch } from "./watch.ts";

const BRAND = "duo";
const CYCLE = "places";
const WITHIN_MS = 30_000;
/** Number of instances of the cycle: the plan, the research, the article, two pages and three posts. */
const INSTANCES = 8;
const TARGETS = {
  rate_per_second: 20,
  sites: [
    { name: "main", kind: "deployment" },
    { name: "shop", kind: "store" },
  ],
  accounts: [
    { name: "main", platform: "bluesky" },
    { name: "fedi", platform: "mastodon" },
    { name: "birds", platform: "x" },
  ],
};

/**
 * Publishes one article on two sites and three platforms. The platform X creates the post, but the response of X is lost, so an operator
 * confirms the post.
 */
export async function severalPlaces(api: BrandApi, stop: AbortSignal): Promise<void> {
  chapter(7, "A brand with two sites and three platforms. X creates the post, and its response is lost: X has no idempotency key.");
  await api.setBrand(BRAND, TARGETS);
  await api.setFaults([{ upstream: "x", match: "tweets", status: 502, remaining: 1, afterEffect: true }]);
  const job = { api, correlation: CYCLE, timeline: new Timeline(Date.now()), expected: INSTANCES, withinMs: WITHIN_MS, stop };
  await api.cycle(BRAND, CYCLE, ["flat white"]);
  const seen = await watch(job);
  await api.clearFaults();
  const writer = seen.find(({ workflow }) => workflow === "generate-article");
  const doubt = seen.find(({ status }) => status === "in_doubt");
  if (!writer || !doubt) throw new Refusal("The post on X has no unknown outcome, although the response of X was lost.");
  say();
  show(await api.article(writer.id));
  say("\n  An operator finds the post in the account and confirms it:");
  const posted = { state: "posted", uri: "1", url: "https://x.com/i/web/status/1" };
  await api.confirm(doubt.id, "The post is in the account.", posted);
  await watch(job);
  say();
  const article = await api.article(writer.id);
  show(article);
  const { mastodon, x } = await api.ledgerTotals();
  const places = [...article.published_to, ...article.posts].filter(({ status }) => status === "published" || status === "posted");
  if (places.length !== 5 || mastodon?.created !== 1 || x?.created !== 1) {
    throw new Refusal(
      `The article is on ${places.length} of 5 targets, with ${mastodon?.created} and ${x?.created} posts on Mastodon and X.`,
    );
  }
}

function show({ published_to, posts }: Article): void {
  const places = [
    ...published_to.map(({ site, status, url }) => ({ where: `site ${site}`, status, url })),
    ...posts.map(({ platform, status, url }) => ({ where: platform, status, url })),
  ];
  for (const { where, status, url } of places) {
    const tone = status === "published" || status === "posted" ? "green" : "yellow";
    say(`  ${column(where, 12)} ${paint(tone, column(status, 10))} ${paint("cyan", url ?? "")}`);
  }
}
