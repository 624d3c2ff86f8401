import { env } from "cloudflare:workers";
import { SCOPES, schedules } from "millrace/operate";
import { expect, it, onTestFinished } from "vitest";
import { startDue } from "../../../packages/millrace/src/schedules/due.ts";
import { howMany, IS_FULL_SIZE } from "../../full-size.ts";
import { app } from "../../probe/worker.ts";
import { deliver, dieAt, fresh, happened, keeperRound, probeEnv, rows, until } from "../harness.ts";
import { world } from "./world.ts";

/** The local platform keeps three files open per instance, and a process may open 20,000 files. So 10,000 mails are too many for it. */
const READERS = howMany(150, 5_000);
/** The number of mails per second in the example of the documentation. */
const PER_SECOND = 50;
const FILL = `
  WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?2 - 1)
  INSERT INTO readers SELECT printf('%05d', i), ?1, i || '@example.com' FROM n`;

it(`a due time of the digest in docs/patterns.md sends ${READERS} mails at 50 per second, none early, each once despite two crashes`, {
  timeout: 600_000,
}, async () => {
  await env.DB.exec("CREATE TABLE readers (id TEXT PRIMARY KEY, list TEXT, email TEXT)");
  onTestFinished(async () => void (await env.DB.exec("DROP TABLE readers")));
  const list = fresh("list");
  await env.DB.prepare(FILL).bind(list, READERS).run();
  const mails = world<{ to: string }>("mail.example.com", ({ to }) => `${list}/${to}`);

  const by = { tenantId: fresh("digest"), actor: "ada", scopes: SCOPES };
  const weekly = { cron: "0 7 * * 1", timeZone: "UTC", command: "digest.due", payload: { list }, lateMs: 3_600_000 };
  await schedules.put(probeEnv, app, by, "weekly", weekly, "Mondays at seven");
  const at = Date.now();
  const due = async () => {
    await rows("UPDATE millrace_schedules SET next_at = ?1 WHERE tenant_id = ?2", at, by.tenantId);
    await startDue(probeEnv, app);
  };
  const accepted = dieAt("A03 accept committed, not enqueued");
  await due();
  expect(accepted.died()).toBe(true);
  const [run] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE tenant_id = ?1", by.tenantId);

  const begun = dieAt("O01 committed, not relayed", run?.id);
  await keeperRound();
  expect(await until(async () => begun.died(), Boolean)).toBe(true);
  const [event] = await rows<{ body: string }>("SELECT body FROM millrace_outbox WHERE body->>'tenant_id' = ?1", by.tenantId);

  const begunAt = Date.now();
  await keeperRound();
  const all = await until(
    async () => mails.length,
    (count) => count >= READERS,
    500_000,
  );
  expect(all).toBe(READERS);
  const early = mails.filter(({ body, at }) => at < begunAt + Math.floor(Number.parseInt(body.to, 10) / PER_SECOND) * 1000);
  expect(early).toEqual([]);

  await due();
  expect(await deliver("digest-events", [JSON.parse(event?.body ?? "null")])).toEqual({ acked: 1, retried: 0 });
  const count = "SELECT count(*) AS count FROM millrace_instances WHERE tenant_id = ?1";
  expect(await rows(count, by.tenantId), "The digest has one instance for its run and one for each mail.").toEqual([
    { count: READERS + 1 },
  ]);
  expect(new Set((await happened(`${list}/`)).map(({ subject }) => subject)).size).toBe(READERS);
  expect(mails).toHaveLength(READERS);
  if (IS_FULL_SIZE) console.log(JSON.stringify({ log: "digest", ...evenness(mails.map(({ at }) => at)) }));
});

/** The spread of the calls over the seconds since the first one. */
function evenness(times: number[]) {
  const [first = 0, ...rest] = times.toSorted((one, other) => one - other);
  const seconds = Object.values(Object.groupBy([first, ...rest], (at) => Math.floor((at - first) / 1000))).map((of) => of?.length ?? 0);
  const sorted = seconds.toSorted((one, other) => one - other);
  return { wall_s: ((rest.at(-1) ?? first) - first) / 1000, least: sorted[0], median: sorted[sorted.length >> 1], most: sorted.at(-1) };
}
