import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { contentRetention } from "../../../src/systems/content/retention.ts";
import { type Caller, callerWith, expectProblem } from "../../api/client.ts";
import { seedInstance } from "../../api/seed.ts";

/** An answer that was paid for on this day. */
async function paid(
  caller: Caller,
  row: { day: string; brand?: string; outcome?: string; tokens?: [number | null, number | null] },
): Promise<string> {
  const id = crypto.randomUUID();
  const [input, output] = row.tokens ?? [100, 50];
  await env.DB.prepare(
    `INSERT INTO text_calls (tenant_id, content_id, attempt, brand, prompt, model, max_tokens, input_tokens, output_tokens, cached_tokens, outcome, paid_at)
     VALUES (?1, ?2, 1, ?3, 'article.v2', 'gpt', 4096, ?4, ?5, 10, ?6, ?7)`,
  )
    .bind(caller.tenantId, id, row.brand ?? "acme", input, output, row.outcome ?? "written", Date.parse(`${row.day}T23:59:59.999Z`))
    .run();
  return id;
}

it("the usage of models is summed by day, brand and model, and answers with unknown cost are counted", async () => {
  const caller = await callerWith();
  await paid(caller, { day: "2026-10-01" });
  await paid(caller, { day: "2026-10-01", outcome: "empty", tokens: [100, 0] });
  await paid(caller, { day: "2026-10-01", tokens: [null, null] });
  await paid(caller, { day: "2026-10-01", brand: "other" });
  await paid(caller, { day: "2026-10-02" });
  await paid(caller, { day: "2026-10-03" });
  await paid(await callerWith(), { day: "2026-10-01" });

  const usage = async (query: string) => (await caller.get(`/v1/usage/text?${query}`)).body.items;
  const one = { day: "2026-10-02", brand: "acme", model: "gpt", answers: 1, bad: 0, unknown: 0, input_tokens: 100, output_tokens: 50 };
  const rest = { cached_tokens: 10, reasoning_tokens: 0 };
  const first = { ...one, day: "2026-10-01", answers: 3, bad: 1, unknown: 1, input_tokens: 200, cached_tokens: 30, reasoning_tokens: 0 };
  expect(await usage("from=2026-10-01&to=2026-10-02&brand=acme")).toEqual([{ ...one, ...rest }, first]);
  expect(await usage("from=2026-10-01&to=2026-10-01")).toEqual([first, { ...one, ...rest, day: "2026-10-01", brand: "other" }]);
  expect(await usage("to=2026-10-02")).toHaveLength(3);
});

it.each([
  ["from=2026-10-02&to=2026-10-01", "later than"],
  ["from=2026-01-01&to=2026-10-01", "more than 92 days"],
  ["from=yesterday", "from"],
  ["brand=Not+A+Brand", "brand"],
  ["day=2026-10-01", "day"],
])("a query of the usage with %s is refused, and the error names the parameter", async (query, words) => {
  const caller = await callerWith();
  const { detail } = expectProblem(await caller.get(`/v1/usage/text?${query}`), 422, "invalid_payload");
  expect(detail).toContain(words);
});

it("an instance's payments are shown to its tenant only, also after the instance is deleted", async () => {
  const [caller, stranger] = [await callerWith(), await callerWith()];
  const id = await paid(caller, { day: "2026-10-01" });
  expect((await caller.get(`/v1/instances/${id}/text-calls`)).body.items).toMatchObject([
    { attempt: 1, outcome: "written", paid_at: "2026-10-01T23:59:59.999Z" },
  ]);
  expectProblem(await stranger.get(`/v1/instances/${id}/text-calls`), 404, "instance_not_found");

  const other = await seedInstance(caller.tenantId);
  expect((await caller.get(`/v1/instances/${other}/text-calls`)).body).toEqual({ items: [] });
});

it("payments older than 400 days are deleted", async () => {
  const caller = await callerWith();
  const day = (ago: number) => new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10);
  const old = await paid(caller, { day: day(402) });
  const young = await paid(caller, { day: day(398) });
  const [rule] = contentRetention;
  await rule?.prune(env, rule.keepDays * 86_400_000, null);
  const { results } = await env.DB.prepare("SELECT content_id FROM text_calls WHERE tenant_id = ?1").bind(caller.tenantId).all();
  expect(results).toEqual([{ content_id: young }]);
  expect(old).not.toBe(young);
});
