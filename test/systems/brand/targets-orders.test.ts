import { env } from "cloudflare:workers";
import { type CrashPoint, expireLeases, skipPauses } from "millrace/testing";
import { expect, it } from "vitest";
import type { CodeAtWork } from "../../../packages/millrace/src/contract/crash-points.ts";
import { deathAt } from "../../../packages/millrace/src/testing/crashes.ts";
import { type Json, reaches } from "../../api/client.ts";
import { howMany } from "../../full-size.ts";
import { ledger } from "../../providers/embedded.ts";
import { statusesIn, TARGETS } from "../content/targets.ts";
import { type Played, play } from "./playing.ts";

/** Two sites and three platforms: for each of three keywords two pages and three posts, each by its own instance. */
const CYCLE = {
  settings: TARGETS,
  messages: {
    "brand.cycle": 1,
    "brand.cycle_ended": 1,
    "research.requested": 3,
    "research.completed": 3,
    "content.generated": 3,
    "content.publish": 3,
    "content.publish_to_site": 3,
    "content.published": 6,
    "social.create": 9,
    "social.posted": 9,
  },
  instances: 22,
};

/** The number of orders that are tested concurrently. */
const TOGETHER = howMany(3, 10);
const from = (first: number) => Array.from({ length: TOGETHER }, (_, index) => first + index);

/** Asserts one page and one post of each article at each target, by the ledger of the embedded upstreams. */
async function expectOnce({ caller, brand, seed }: Played): Promise<void> {
  const { items } = (await caller.get(`/v1/articles?brand=${brand}`)).body;
  expect(items, `seed ${seed}`).toHaveLength(3);
  for (const { id } of items) {
    const article = (await caller.get(`/v1/articles/${id}`)).body;
    const expected = {
      main: "published",
      shop: "published",
      "main on bluesky": "posted",
      "fedi on mastodon": "posted",
      "birds on x": "posted",
    };
    expect(statusesIn(article), `seed ${seed}`).toEqual(expected);
    const done: Record<string, number> = {};
    for (const { site, url } of article.published_to) done[site] = await madeAt("pages", new URL(url).pathname.replace("/pages/", ""));
    // Each post ends with the URL of the page on the first site.
    for (const upstream of ["social", "mastodon", "x"]) done[upstream] = await madeAt(upstream, article.url);
    expect(done, `seed ${seed}`).toEqual({ main: 1, shop: 1, social: 1, mastodon: 1, x: 1 });
  }
}

/** Counts the creations in an embedded upstream. A removal or a refused duplicate fails the test. */
async function madeAt(upstream: string, match: string): Promise<number> {
  const { calls } = await ledger({ upstream, match });
  const own = calls.filter(({ subject }) => subject === match || subject.endsWith(` ${match}`));
  expect(own.filter(({ outcome }) => outcome === "removed" || outcome === "refused")).toEqual([]);
  return own.filter(({ outcome }) => outcome === "created").length;
}

/** The agent's records, made of events in that order, are those of the database. */
async function expectNoFindings({ caller, brand, seed }: Played): Promise<void> {
  const { body } = await caller.post("/v1/commands", { type: "brand.audit", payload: { brand, audit: "after the play" } });
  const { result } = await reaches(caller, body.instance_id, "complete");
  expect(result, `seed ${seed}`).toMatchObject({ counts: { live: 3, drafts: 0 }, findings: [] });
}

it.each([1, 11, 21, 31, 41].slice(0, howMany(1, 5)))(
  "a brand cycle with two sites and three platforms, each message twice, creates one page and one post at each target, in shuffled orders from number %i on",
  { timeout: 120_000 },
  async (first) => {
    for (const one of await play(from(first), CYCLE)) {
      await expectOnce(one);
      await expectNoFindings(one);
    }
  },
);

/** Before its record, only the upstream knows the outcome of an effect. */
const IN_EFFECT: readonly CrashPoint[] = ["W03 effect done, not recorded", "W06 about to record"];
const POINTS: readonly CrashPoint[] = [
  "W01 claimed, effect not started",
  ...IN_EFFECT,
  "O01 committed, not relayed",
  "W04 committed, caller saw an error",
  "W05 recorded, step result lost",
];

/** Makes the first attempt of each page and post die once, at the point with the fewest deaths; for X at a point in its effect. */
function killing(): { deaths: Map<CrashPoint, number> } & Disposable {
  const before = globalThis.millraceCrashPoint;
  const dead = new Set<string>();
  const posts = new Map<string, CrashPoint | undefined>();
  const deaths = new Map(POINTS.map((point) => [point, 0]));
  globalThis.millraceCrashPoint = async (point, id, about) => {
    const { step, class: guard } = (about ?? {}) as Partial<CodeAtWork>;
    if (id === undefined || (step !== "put page" && step !== "announce") || dead.has(id)) return;
    // At the claim, the effect class is not known yet.
    if (guard === "once" && !posts.has(id)) posts.set(id, IN_EFFECT[posts.size % IN_EFFECT.length]);
    const count = deaths.get(point);
    if (count === undefined || (posts.has(id) ? posts.get(id) !== point : count > Math.min(...deaths.values()))) return;
    dead.add(id);
    deaths.set(point, count + 1);
    // The dead process sends no further heartbeat.
    await expireLeases(env, id);
    throw deathAt(point);
  };
  const restore = () => {
    globalThis.millraceCrashPoint = before;
  };
  return { deaths, [Symbol.dispose]: restore };
}

/** An operator checks each unknown outcome, and answers by the content of the account. Only posts on X can have an unknown outcome. */
async function settleDoubts({ caller }: Played): Promise<string[]> {
  const { items } = (await caller.get("/v1/effects?state=in_doubt&limit=200")).body;
  for (const { key, instance_id } of items) {
    const instance = (await caller.get(`/v1/instances/${instance_id}`)).body;
    expect(instance).toMatchObject({ workflow: "post-to-social", status: "in_doubt" });
    const article = (await caller.get(`/v1/articles/${instance.subject}`)).body;
    expect(article.posts.filter(({ status }: Json) => status === "in_doubt")).toMatchObject([
      { account: "birds", instance: { id: instance_id } },
    ]);
    const isThere = (await madeAt("x", article.url)) === 1;
    const output = { state: "posted", uri: "1", url: "https://x.com/i/web/status/1" };
    const reason = "looked it up";
    const answer = await caller.post(`/v1/effects/${key}/${isThere ? "confirm" : "reject"}`, { reason, ...(isThere && { output }) });
    expect(answer.status, JSON.stringify(answer.body)).toBe(202);
  }
  return items.map(({ key }: Json) => key);
}

it("a brand cycle has the same outcome when each attempt at a page or a post dies once: an operator resolves each unknown outcome on X", {
  timeout: 120_000,
}, async () => {
  using killed = killing();
  using _ = skipPauses();
  const doubts = new Set<string>();
  const meanwhile = async (one: Played) => {
    for (const key of await settleDoubts(one)) doubts.add(key);
    return true;
  };
  const played = await play(from(201), { ...CYCLE, isKilled: true, meanwhile });
  for (const one of played) await expectOnce(one);
  expect([...killed.deaths].filter(([, count]) => count === 0)).toEqual([]);
  expect(doubts.size).toBe(3 * TOGETHER);
});
