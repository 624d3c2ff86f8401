import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { apiOf } from "../../packages/millrace/cli/api-client.ts";
import { startEngine } from "../../packages/millrace/cli/local/engine-process.ts";
import { freePort } from "../../packages/millrace/cli/local/ports.ts";
import { ROOT } from "../../packages/millrace/cli/local/wrangler.ts";
import { emptyFolder } from "./folder.ts";

// To let a real Prometheus scrape a local engine for a minute: MILLRACE_FULL_SIZE=true npx vitest run --project node
// test/cli/prometheus.test.ts
const isAsked = process.env.MILLRACE_FULL_SIZE === "true";
const isThere = spawnSync("prometheus", ["--version"]).status === 0;
if (isAsked && !isThere) console.warn("SKIPPED: prometheus is not installed, so no scrape was tested.");

/** The shipped configuration, for a local engine: another target, no TLS, and seconds instead of minutes. */
function configure(folder: string, port: number, token: string): void {
  const shipped = (name: string) => readFileSync(join(ROOT, "docs/prometheus", name), "utf8");
  writeFileSync(join(folder, "token"), token, { mode: 0o600 });
  writeFileSync(join(folder, "alerts.yml"), shipped("alerts.yml").replaceAll(/for: \d+m/g, "for: 5s"));
  const config = shipped("prometheus.yml").replaceAll("15s", "2s").replace("scheme: https", "scheme: http");
  writeFileSync(join(folder, "prometheus.yml"), config.replace("millrace.example.workers.dev", `127.0.0.1:${port}`));
}

async function until<T>(look: () => Promise<T>, right: (seen: T) => boolean, withinMs: number): Promise<T> {
  const deadline = Date.now() + withinMs;
  for (;;) {
    const seen = await look();
    if (right(seen) || Date.now() > deadline) return seen;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

it.skipIf(!isAsked || !isThere)("a real Prometheus scrapes an engine, and its alert rules fire", { timeout: 240_000 }, async () => {
  const folder = emptyFolder();
  writeFileSync(join(folder, "secrets"), "MILLRACE_KEY=test\n");
  const engine = await startEngine({ folder, port: await freePort(), secrets: join(folder, "secrets") });
  onTestFinished(() => engine.stop());
  const { port } = new URL(engine.url);
  configure(folder, Number(port), engine.token);
  const own = await freePort();
  const url = `http://127.0.0.1:${own}`;
  const args = [`--config.file=${join(folder, "prometheus.yml")}`, `--storage.tsdb.path=${join(folder, "data")}`];
  const prometheus = spawn("prometheus", [...args, `--web.listen-address=127.0.0.1:${own}`], { stdio: "ignore" });
  onTestFinished(async () => {
    prometheus.kill("SIGTERM");
    await once(prometheus, "exit");
  });

  const requests = Array.from({ length: 5 }, (_, index) => ({
    type: "research.requested",
    payload: { brand: "acme", keyword: `tea ${index}` },
  }));
  await apiOf(engine.url, engine.token).enqueue(requests);
  const asked = async (path: string) => {
    const answer = await fetch(`${url}/api/v1/${path}`).catch(() => undefined);
    return (
      (await answer?.json()) as { data?: { result?: { metric: Record<string, string>; value: [number, string] }[]; alerts?: Alert[] } }
    )?.data;
  };
  interface Alert {
    labels: Record<string, string>;
    state: string;
  }
  const up = await until(
    () => asked("query?query=up"),
    (data) => data?.result?.[0]?.value[1] === "1",
    60_000,
  );
  expect(up?.result).toMatchObject([{ metric: { job: "millrace" }, value: [expect.any(Number), "1"] }]);
  const sent = "query?query=sum(millrace_queue_messages_received_total)";
  const received = await until(
    () => asked(sent),
    (data) => Number(data?.result?.[0]?.value[1] ?? 0) >= 5,
    60_000,
  );
  expect(Number(received?.result?.[0]?.value[1])).toBeGreaterThanOrEqual(5);

  // Many dead letters, as after an outage.
  const rows =
    "INSERT INTO millrace_dead_letters (id, queue, body, reason, attempts, first_at, captured_at) VALUES ('l1', 'publish-commands', '{}', 'exhausted', 1, 1, 1)";
  const wrangler = join(ROOT, "node_modules/.bin/wrangler");
  execFileSync(
    wrangler,
    ["d1", "execute", "DB", "--local", "--persist-to", join(folder, "state"), "-c", join(ROOT, "wrangler.jsonc"), "--command", rows],
    { stdio: "pipe" },
  );
  const firing = await until(
    async () => (await asked("alerts"))?.alerts?.filter(({ state }) => state === "firing").map(({ labels }) => labels.alertname) ?? [],
    (names) => names.includes("DeadLetters"),
    90_000,
  );
  expect(firing).toContain("DeadLetters");
  expect(firing).not.toContain("MillraceDown");
  const series = await asked("query?query=count({__name__=~'millrace_.%2B'})");
  console.log(`Prometheus holds ${series?.result?.[0]?.value[1]} series of Millrace; firing: ${firing.join(", ")}.`);
});
