import { outbox } from "millrace/worker";
import { expect, it } from "vitest";
import queues from "../../../docs/queues.md?raw";
import { app } from "../../../src/catalog.ts";
import wrangler from "../../../wrangler.jsonc?raw";
import { callerWith } from "../../api/client.ts";
import { following, shipping } from "../examples/queues.ts";
import { exportCommands } from "../examples/several-queues.ts";
import { followDocument } from "./follow.ts";

it("every command of docs/queues.md prints the output under it", async () => {
  const { token } = await callerWith();
  expect(await followDocument(queues, { given: { TOKEN: token } })).toBe(6);
});

it("the queue options of docs/queues.md are valid options, with their resolved values", () => {
  expect(shipping).toMatchObject({
    concurrency: 3,
    deadlineMs: 300_000,
    priority: { lowMs: 600_000 },
    batch: { size: 20, waitSeconds: 2 },
  });
  expect(following).toMatchObject({
    concurrency: 5,
    deadlineMs: 780_000,
    priority: undefined,
    routes: [{ targets: [{ ratePerSecond: 5 }] }],
  });
});

it("the declaration of several queues in docs/queues.md distributes tenants as the page states", () => {
  const queueOf = (tenant_id: string) => outbox.queueFor(exportCommands, { tenant_id, subject: "" });
  const tenants = Array.from({ length: 50 }, (_, index) => `t${index}`);
  expect(queueOf("acme")).toBe("export-commands-acme");
  expect([...new Set(tenants.map(queueOf))].sort()).toEqual(["export-commands", "export-commands-2", "export-commands-3"]);
});

it.each([
  ["research", "gatherfeed-commands"],
  ["publishing", "publish-commands"],
  ["events", "brand-events"],
  ["bulk import", "batch"],
  ["an API with a rate limit", "crm-commands"],
])('the case "%s" in docs/queues.md has the settings of the consumer of %s', (name, queue) => {
  const consumer = app.consumers.find((one) => one.queue.name === queue);
  if (!consumer) throw new Error(`Nobody consumes ${queue}.`);
  const { batch, concurrency, retries } = consumer;
  const minutes = retries.maxMs / 60_000;
  expect(caseOf(name)).toEqual([
    `${batch.size}, ${batch.waitSeconds} s`,
    String(concurrency),
    `${retries.limit}, ${retries.initialMs / 1000} s … ${minutes} m`,
  ]);
});

it("the example of dead letters in docs/queues.md has the settings of every dead-letter consumer", () => {
  const { consumers } = JSON.parse(wrangler.replace(/^\s*\/\/.*$/gm, "")).queues as { consumers: Record<string, unknown>[] };
  const letters = consumers.filter(({ queue }) => String(queue).endsWith("-dlq"));
  expect(letters).toHaveLength(app.consumers.length);
  const [batch, concurrency, retries = ""] = caseOf("dead letters");
  for (const { max_batch_size, max_batch_timeout, max_concurrency, max_retries } of letters) {
    expect([`${max_batch_size}, ${max_batch_timeout} s`, String(max_concurrency)]).toEqual([batch, concurrency]);
    expect(retries).toContain(`${max_retries}, `);
  }
});

/** The values of a case: batch and wait, concurrency, retries. */
function caseOf(name: string): string[] {
  const line = queues.split("\n").find((one) => one.startsWith(`| ${name}`)) ?? "";
  return line
    .split("|")
    .slice(2, 5)
    .map((cell) => cell.trim());
}
