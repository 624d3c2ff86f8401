import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { apiOf, type Instance } from "../../packages/millrace/cli/api-client.ts";
import { numberOption, readOptions } from "../../packages/millrace/cli/options.ts";
import { ChaosEngine } from "../chaos/engine.ts";
import { type Count, countEach, isExact } from "./count.ts";
import { openGate } from "./gate.ts";
import { Killer, type Write } from "./kills.ts";
import { folderOf, installing } from "./packages.ts";
import { startPds } from "./pds.ts";
import { startWordPress } from "./wordpress.ts";

// Publishes articles to a real WordPress and a real Bluesky PDS, kills the engine meanwhile, and counts the posts on both servers. A server
// that is not installed is skipped with a warning: see packages.ts.

const USAGE =
  "Usage: npm run e2e:real -- [--articles 8] [--kills 8]. The number of articles, 1 to 50, and of kills of the engine, 0 to 100.";
const { values } = readOptions(USAGE, { options: { articles: { type: "string", default: "8" }, kills: { type: "string", default: "8" } } });
const articles = numberOption(USAGE, "articles", values.articles, { least: 1, most: 50 });
const kills = numberOption(USAGE, "kills", values.kills, { most: 100 });
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));

const WORKFLOWS = ["research-keyword", "generate-article", "publish-article", "post-to-social"];
const ENDED = new Set(["complete", "errored", "in_doubt", "dead", "skipped"]);
const LOOK_EVERY_MS = 500;
/** Longer than the delay between two failed attempts. */
const STILL_MS = 20_000;
/** The timeout of all chains, from the first request on. A kill adds the remote server's time, a lease of 15 s, and the engine's start. */
const limitMs = 120_000 + articles * 10_000 + kills * 45_000;

const cli = folderOf("@wp-playground/cli");
const builds = folderOf("@wp-playground/wordpress-builds");
const devEnv = folderOf("@atproto/dev-env");
const hasWordPress = cli !== undefined && builds !== undefined;
if (!hasWordPress)
  skipped("WordPress", [...(cli ? [] : ["@wp-playground/cli" as const]), ...(builds ? [] : ["@wp-playground/wordpress-builds" as const])]);
if (devEnv === undefined) skipped("Bluesky PDS", ["@atproto/dev-env"]);
if (!hasWordPress && devEnv === undefined) {
  console.log("No real server is installed: NOTHING WAS PROVEN.");
  process.exit(0);
}

const folder = mkdtempSync(join(tmpdir(), "millrace-e2e-"));
try {
  process.exitCode = (await run()) ? 0 : 1;
  if (process.exitCode === 0) rmSync(folder, { recursive: true, force: true });
} catch (error) {
  console.error(error);
  process.exitCode = 1;
}
if (process.exitCode !== 0) console.log(`The state and the logs are stored in ${folder}.`);
process.exit();

async function run(): Promise<boolean> {
  console.log("Starting the real servers; WordPress takes half a minute.");
  const [wordpress, pds] = await Promise.all([
    hasWordPress ? startWordPress(cli, builds, folder) : undefined,
    devEnv === undefined ? undefined : startPds(devEnv, folder),
  ]);
  if (wordpress) console.log(`WordPress ${wordpress.version} runs at ${wordpress.url}.`);
  if (pds) console.log(`A Bluesky PDS runs at ${pds.url}.`);
  const before = new Set((await wordpress?.posts())?.map(({ id }) => id));

  const writes: Write[] = [...(wordpress ? ["page" as const] : []), ...(pds ? ["post" as const] : [])];
  const killers: Killer[] = [];
  const passing = (write: Write) => async (moment: Parameters<Killer["passing"]>[1]) => killers[0]?.passing(write, moment);
  const pagesGate = wordpress && (await openGate(wordpress.url, ({ method }) => method === "POST", passing("page")));
  const postsGate = pds && (await openGate(pds.url, ({ url }) => url?.endsWith("putRecord") ?? false, passing("post")));

  const engine = new ChaosEngine(folder, {
    vars: {
      ...(pagesGate && wordpress && { PAGES_PROVIDER: "wordpress", PAGES_URL: pagesGate.url, PAGES_USER: wordpress.user }),
      ...(postsGate && pds && { SOCIAL_URL: postsGate.url, SOCIAL_HANDLE: pds.handle }),
    },
    secrets: { ...(wordpress && { PAGES_TOKEN: wordpress.password }), ...(pds && { SOCIAL_PASSWORD: pds.password }) },
  });
  const killer = new Killer(engine, kills, writes, (line) => console.log(line));
  killers.push(killer);
  try {
    await engine.start();
    const keywords = Array.from({ length: articles }, (_, index) => `cold brew ${String(index + 1).padStart(2, "0")}`);
    const startedAt = Date.now();
    killer.begin();
    await apiOf(engine.url, engine.token).enqueue(
      keywords.map((keyword) => ({ type: "research.requested", correlation_id: "e2e", payload: { brand: "acme", keyword } })),
    );
    const retried: string[] = [];
    const instances = await ended(engine, killer, retried);
    const took = Math.round((Date.now() - startedAt) / 1000);
    const unfinished = instances.filter(({ status }) => status !== "complete");
    for (const { workflow, id, status, error } of unfinished)
      console.log(`UNFINISHED ${workflow} ${id} is ${status}: ${error?.message ?? ""}`);

    const counts: Record<string, Count> = {};
    if (wordpress) {
      const posts = (await wordpress.posts()).filter(({ id }) => !before.has(id));
      const named = (name: string) => `${name.replaceAll(" ", "-")}-`;
      counts.wordpress = countEach(
        keywords,
        posts,
        ({ slug }, name) => slug.startsWith(named(name)),
        ({ slug, status }) => `${slug} (${status})`,
      );
    }
    if (pds) {
      const posts = await pds.posts();
      counts.bluesky = countEach(
        keywords,
        posts,
        ({ text }, name) => text.toLowerCase().includes(name),
        ({ uri, text }) => `${uri} "${text}"`,
      );
    }
    for (const [where, count] of Object.entries(counts)) tell(where, count);
    for (const error of killer.failed) console.log(`The engine did not come back: ${error.message}`);

    const complete = instances.length === articles * WORKFLOWS.length && unfinished.length === 0;
    // Chains may end before every planned moment has occurred; a run without any kill would prove nothing.
    const killed = kills === 0 || killer.made.length > 0;
    if (!complete) console.log(`${instances.length - unfinished.length} of ${articles * WORKFLOWS.length} instances are complete.`);
    if (killer.made.length < kills) console.log(`Only ${killer.made.length} of ${kills} kills were made: the work ended before.`);
    console.log(
      JSON.stringify({
        articles,
        kills: killer.made,
        operator_retries: retried.length,
        seconds: took,
        wordpress_version: wordpress?.version,
        ...counts,
      }),
    );
    return complete && killed && Object.values(counts).every(isExact);
  } finally {
    await engine.end();
    pagesGate?.close();
    postsGate?.close();
    wordpress?.stop();
    pds?.stop();
  }
}

/** The job's instances, once all of them have ended, none is running, or the time is up. The engine may be down at the request. */
async function ended(engine: ChaosEngine, killer: Killer, retried: string[]): Promise<Instance[]> {
  const expected = articles * WORKFLOWS.length;
  const deadline = Date.now() + limitMs;
  let seen: Instance[] = [];
  let [done, changedAt] = [0, Date.now()];
  while (done < expected && Date.now() < deadline && killer.failed.length === 0) {
    await sleep(LOOK_EVERY_MS);
    seen = await apiOf(engine.url, engine.token)
      .instances("e2e")
      .catch(() => seen);
    const now = seen.filter(({ status }) => ENDED.has(status)).length;
    if (now !== done) {
      [done, changedAt] = [now, Date.now()];
      console.log(`${done} of ${expected} instances have ended`);
    }
    if (done < seen.length || Date.now() - changedAt < STILL_MS) continue;
    // A failed instance has no successor until an operator retries it; this test does the same.
    const failed = seen.filter(({ status }) => status === "errored");
    if (failed.length === 0 || retried.length >= articles) break;
    for (const { id, workflow, error } of failed) {
      console.log(`${workflow} failed (${error?.message ?? ""}): an operator retries it.`);
      retried.push(id);
      await apiOf(engine.url, engine.token).retry(id, "The engine was killed too often.");
    }
    [done, changedAt] = [0, Date.now()];
  }
  return seen;
}

function tell(where: string, { expected, found, duplicates, lost, strange }: Count): void {
  console.log(`${where}: ${found} posts for ${expected} articles`);
  for (const one of duplicates) console.log(`DUPLICATE in ${where}: ${one}`);
  for (const one of lost) console.log(`LOST in ${where}: ${one}`);
  for (const one of strange) console.log(`UNEXPECTED in ${where}: ${one}`);
}

function skipped(what: string, missing: Parameters<typeof installing>[0]): void {
  console.log(`\n*** SKIPPED: the real ${what}. Not installed: ${missing.join(", ")}.`);
  console.log(`*** To have it: ${installing(missing)}   (some hundred MB; elsewhere: E2E_PACKAGES=/path/to/node_modules)`);
  if (missing.includes("@atproto/dev-env"))
    console.log(
      "*** A PDS needs better-sqlite3 built (npm may ask: npm install-scripts approve better-sqlite3), for Node 22: E2E_PDS_NODE.\n",
    );
}
