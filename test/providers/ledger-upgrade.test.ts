import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";

/** The tables with additional values, as version 0.1 created them. */
const BEFORE = `
  DROP TABLE calls;
  CREATE TABLE calls (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    upstream TEXT NOT NULL CHECK (upstream IN ('search', 'text', 'pages', 'social')),
    key      TEXT,
    subject  TEXT NOT NULL,
    at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    outcome  TEXT NOT NULL CHECK (outcome IN ('charged', 'repeated', 'created', 'replaced', 'unchanged', 'refused'))
  ) STRICT;
  INSERT INTO calls (id, upstream, key, subject, at, outcome) VALUES
    (1, 'search', 'k1', 'tea', '2026-01-01T00:00:00.000Z', 'charged'),
    (7, 'pages', NULL, 'acme/tea', '2026-01-02T00:00:00.000Z', 'created');`;

it("the embedded ledger of an earlier version accepts the new values and keeps its records", async () => {
  const ledger = env.EMBEDDED_LEDGER.getByName("of-an-earlier-version");
  await runInDurableObject(ledger, (_, { storage }) => storage.sql.exec(BEFORE));
  const page = { upstream: "pages" as const, key: "k2", subject: "acme/tea" };
  await evictDurableObject(ledger);

  await ledger.record(page, "removed");
  for (const _ of [1, 2]) {
    const { calls, totals } = await ledger.report({});
    expect(calls).toEqual([
      { id: 1, upstream: "search", key: "k1", subject: "tea", at: "2026-01-01T00:00:00.000Z", outcome: "charged" },
      { id: 7, upstream: "pages", key: null, subject: "acme/tea", at: "2026-01-02T00:00:00.000Z", outcome: "created" },
      { id: 8, ...page, at: expect.any(String), outcome: "removed" },
    ]);
    expect(totals).toMatchObject({ search: { charged: 1 }, pages: { created: 1, removed: 1 } });
    await evictDurableObject(ledger);
  }
});
