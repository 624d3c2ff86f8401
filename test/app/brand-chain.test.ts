import { env } from "cloudflare:workers";
import { MillraceError } from "millrace";
import { instances as engineInstances } from "millrace/operate";
import { expect, it, onTestFinished, vi } from "vitest";
import { acceptCommands } from "../../packages/millrace/src/intake/accept/enqueue.ts";
import { app } from "../../src/catalog.ts";
import { servePage } from "../../src/embedded/pages.ts";
import { fresh } from "../api/client.ts";
import { fail, paidFor } from "../systems/brand/brand.ts";

const brand = fresh("brand");
const keywords = ["cold brew coffee", "pour over coffee", "espresso at home"].map((keyword) => `${keyword} ${brand}`);
const operator = { tenantId: fresh("tenant"), actor: "tess" };
const job = fresh("job");

interface Row {
  id: string;
  workflow: string;
  status: string;
}

function instancesOf(correlationId: string): Promise<Row[]> {
  return env.DB.prepare("SELECT id, workflow, status FROM millrace_instances WHERE correlation_id = ?1")
    .bind(correlationId)
    .all<Row>()
    .then((found) => found.results);
}

/** Every message of a job: its command, and the messages of its instances. */
async function messageCounts(correlationId: string): Promise<Record<string, number>> {
  const instances = await instancesOf(correlationId);
  const emitted = (await Promise.all(instances.map(({ id }) => engineInstances.messages(env, operator, id))))
    .flat()
    .map(({ message_type }) => message_type);
  const commands = await env.DB.prepare("SELECT message_type FROM millrace_instances WHERE correlation_id = ?1 AND queue IS NOT NULL")
    .bind(correlationId)
    .all<{ message_type: string }>();
  const counts: Record<string, number> = {};
  for (const type of [...emitted, ...commands.results.map((row) => row.message_type)]) counts[type] = (counts[type] ?? 0) + 1;
  return counts;
}

it("three keywords become three pages and three posts with the messages of the brand engine; a failed publish is retried without a second payment", async () => {
  onTestFinished(() => fail().then(() => undefined));
  await fail({ upstream: "pages", match: `espresso-at-home-${brand}`, status: 400, remaining: null });
  const answers = await acceptCommands(
    env,
    app,
    { tenantId: operator.tenantId, source: "test" },
    keywords.map((keyword) => ({ type: "research.requested", payload: { brand, keyword }, correlationId: job })),
  );
  expect(answers.every((answer) => !(answer instanceof MillraceError))).toBe(true);

  const settled = async () => {
    const instances = await instancesOf(job);
    return instances.length === 11 && instances.every(({ status }) => status === "complete" || status === "errored");
  };
  await vi.waitUntil(settled, { timeout: 30_000, interval: 20 });
  const failed = (await instancesOf(job)).filter(({ status }) => status === "errored");
  expect(failed).toMatchObject([{ workflow: "publish-article" }]);
  expect(await paidFor(brand)).toEqual({ search: 3, text: 6 });

  await fail();
  await engineInstances.act(env, operator, "retry", failed[0]?.id ?? "", { reason: "the page store is repaired" });
  const done = async () => {
    const instances = await instancesOf(job);
    return instances.length === 12 && instances.every(({ status }) => status === "complete");
  };
  await vi.waitUntil(done, { timeout: 30_000, interval: 20 });

  expect(await messageCounts(job)).toEqual({
    "research.requested": 3,
    "research.completed": 3,
    "content.generated": 3,
    "content.publish": 3,
    "social.create": 3,
    "content.published": 3,
    "social.posted": 3,
  });
  expect(await paidFor(brand)).toEqual({ search: 3, text: 6 });
  const articles = await env.DB.prepare("SELECT title, url, post_uri FROM articles WHERE status = 'published' AND tenant_id = ?1")
    .bind(operator.tenantId)
    .all<{ title: string; url: string; post_uri: string }>();
  expect(articles.results).toHaveLength(3);
  for (const { title, url, post_uri } of articles.results) {
    const page = await servePage(env, decodeURIComponent(new URL(url).pathname.replace("/pages/", "")));
    expect(await page?.text()).toContain(title);
    expect(post_uri).toMatch(/^at:\/\//);
  }
});
