import { setTimeout as sleep } from "node:timers/promises";
import { Refusal } from "../command.ts";
import { column, paint, say, seconds } from "../terminal.ts";
import { type ArticleDetail, type PublishApi, publishApi } from "./publish/api.ts";
import { type Sight, visit } from "./publish/visitor.ts";
import { chapter, type Stage, type Story } from "./story.ts";

const BRAND = "tearoom";
const [GOOD, DULL] = ["green tea", "tea bags"] as const;
const FORGOTTEN = "tea eggs";
/** Research and writing take two seconds; after a crash the keeper comes within half a minute. */
const WITHIN_MS = 60_000;
const LOOK_EVERY_MS = 150;

export const publish: Story = { title: "approve, publish, take down: pages, an index, a feed", tell };

async function tell(stage: Stage): Promise<void> {
  const began = Date.now();
  const api = () => publishApi(stage.engine.url, stage.engine.token);
  const until = untilWith(stage.stop);

  chapter(1, `The brand “${BRAND}” wants a person's yes. Two articles are asked for.`);
  await api().wantsApproval(BRAND, "1 hour");
  await api().askFor(BRAND, [GOOD, DULL]);
  const asked = await until(
    "two articles wait for an answer",
    () => api().approvals(),
    (found) => found.length === 2,
  );
  for (const { question, details } of asked) {
    say(`  ${paint("yellow", "waiting")}  ${question}`);
    say(
      paint(
        "dim",
        `           ${details?.words} words: ${String(details?.excerpt)
          .slice(0, 90)
          .replace(/\s+\S*$/, "")} …`,
      ),
    );
  }

  chapter(2, "One gets a yes, one a no. A third one waits for two seconds, and nobody looks.");
  const questionAbout = (keyword: string) => asked.find(({ details }) => details?.keyword === keyword)?.id ?? "";
  await api().answer(questionAbout(GOOD), "approve", "People ask for it.");
  await api().answer(questionAbout(DULL), "reject", "We do not sell them.");
  await api().wantsApproval(BRAND, "2 seconds");
  await api().askFor(BRAND, [FORGOTTEN]);
  await until(
    "all three are decided",
    () => api().articles(BRAND),
    (found) => found.length === 3 && found.every(({ status }) => status !== "draft"),
  );
  await showArticles(api());
  const article = await until(
    "the published one is announced",
    () => detailOf(api(), GOOD),
    ({ post_uri }) => post_uri !== null,
  );
  const url = article.url ?? "";

  chapter(3, "What people see, without any token");
  await expectSight(url, { page: 200, index: 200, feed: 200, listed: [url], fed: [url] });

  chapter(4, "The article is taken down. At the moment this is promised, the engine is killed (kill -9).");
  await api().unpublish(article.id, "The supplier is gone.");
  const killedAt = Date.now();
  await stage.crash();
  say(`  It is back ${seconds(Date.now() - killedAt)} later, and does what it promised.`);
  const gone = await until(
    "the article is taken down, and the undo has ended",
    () => detailOf(api(), GOOD),
    ({ status, instances }) => status === "unpublished" && instances.publish?.status === "terminated",
  );
  await expectSight(url, { page: 404, index: 200, feed: 200, listed: [], fed: [] });

  chapter(5, "It is published again: the same chain goes on, in its second generation, at the same address.");
  await api().publish(article.id, "There is a new supplier.");
  const again = await until(
    "the article is published again",
    () => detailOf(api(), GOOD),
    ({ status }) => status === "published",
  );
  await expectSight(url, { page: 200, index: 200, feed: 200, listed: [url], fed: [url] });
  say(
    `  Its revision went from ${article.revision} to ${gone.revision} to ${again.revision}; it was first published at ${again.published_at}, which stays.`,
  );

  chapter(6, "The page store's own ledger");
  await prove(api(), article, again);
  say(
    `\n${paint("green", "✓")} ${paint("bold", `Each page was put up once per generation and taken down once, a kill included, in ${seconds(Date.now() - began)}.`)}`,
  );
}

/** Every article as the API lists it, with what was decided about it. */
async function showArticles(api: PublishApi): Promise<void> {
  const approvals = await api.approvals();
  for (const { id, keyword, status, revision } of await api.articles(BRAND)) {
    const { state, decided_by, reason } = approvals.find(({ details }) => details?.content_id === id) ?? {};
    const because = decided_by ? `${state} by ${decided_by}: “${reason}”` : `${state}, because nobody answered in time`;
    say(`  ${paint(status === "published" ? "green" : "red", column(status, 11))}${column(keyword, 11)} revision ${revision}  ${because}`);
  }
}

async function detailOf(api: PublishApi, keyword: string): Promise<ArticleDetail> {
  const found = (await api.articles(BRAND)).find((one) => one.keyword === keyword);
  if (!found) throw new Refusal(`There is no article about “${keyword}”.`);
  return api.article(found.id);
}

async function expectSight(url: string, expected: Sight): Promise<void> {
  const seen = await visit(url);
  const line = (status: number, what: string, leadsTo = "") =>
    say(`  ${paint(status === 200 ? "green" : "red", String(status))}  ${what}${leadsTo}`);
  const articles = (count: number) => paint("dim", `  ${count === 1 ? "one article" : `${count} articles`}`);
  const index = url.slice(0, url.lastIndexOf("/") + 1);
  line(seen.page, paint("cyan", url));
  line(seen.index, paint("cyan", index), articles(seen.listed.length));
  line(seen.feed, paint("cyan", `${index}feed.xml`), articles(seen.fed.length));
  if (JSON.stringify(seen) !== JSON.stringify(expected))
    throw new Refusal(`People see ${JSON.stringify(seen)} instead of ${JSON.stringify(expected)}.`);
}

/** Holds the page store's ledger against what was asked: the judge of duplicates. */
async function prove(api: PublishApi, first: ArticleDetail, again: ArticleDetail): Promise<void> {
  const calls = await api.ledger("pages");
  for (const { key, subject, outcome } of calls) say(`  ${column(outcome, 10)}${subject}  ${paint("dim", `key ${key?.slice(0, 8)}…`)}`);
  const keysOf = (outcome: string) => new Set(calls.filter((call) => call.outcome === outcome).map(({ key }) => key));
  const count = (outcome: string) => calls.filter((call) => call.outcome === outcome).length;
  const posts = (await api.ledger("social")).filter(({ outcome }) => outcome === "created").length;
  say(`  ${posts} post on the social service: publishing again announces nothing a second time.`);
  const path = new URL(first.url ?? "").pathname.replace("/pages/", "");
  const expectations: [boolean, string][] = [
    [calls.every(({ subject }) => subject === path), "The page store was asked for a page that nobody said yes to."],
    [count("created") === 2 && keysOf("created").size === 2, "The page was not put up once in each of two generations."],
    [count("removed") === 1, "The page was not taken down exactly once."],
    [new Set(calls.map(({ key }) => key)).size === 3, "There were other effects than two puts and one removal."],
    [posts === 1, `There were ${posts} posts instead of one.`],
    [again.url === first.url && again.published_at === first.published_at, "The article came back at another address or time."],
  ];
  const wrong = expectations.filter(([holds]) => !holds).map(([, sentence]) => sentence);
  if (wrong.length > 0) throw new Refusal(`The demo did not end as it should. ${wrong.join(" ")}`);
}

function untilWith(stop: AbortSignal) {
  return async <T>(what: string, look: () => Promise<T>, right: (seen: T) => boolean): Promise<T> => {
    const endsAt = Date.now() + WITHIN_MS;
    for (;;) {
      const seen = await look();
      if (right(seen)) return seen;
      if (Date.now() > endsAt) throw new Refusal(`It did not happen within ${seconds(WITHIN_MS)} that ${what}.`);
      await sleep(LOOK_EVERY_MS, undefined, { signal: stop });
    }
  };
}
