import { expect, it } from "vitest";
import { bundled, prepared, running, runtimeOf } from "./bundled-workers.ts";

const chain = (name: string, said: string) => `const ${name} = defineWorkflow({
  name: "${name}",
  input: z.object({ name: z.string() }),
  key: ({ name }) => name,
  run: ({ input, step }) => step.commit("say it", () => ({ output: { said: \`${said}, \${input.name}.\` } })),
});`;

const program = (...chains: [name: string, said: string][]) => `import { defineWorkflow, millrace } from "millrace";
import * as z from "zod";
${chains.map(([name, said]) => chain(name, said)).join("\n")}
export const { handler, Runs, Recorder, Keeper } = millrace({ workflows: [${chains.map(([name]) => name).join(", ")}] });
export default handler;`;

const GREET = ["greet", "Good morning"] as const;

/** The configuration has no binding and no class per workflow, and no line that a second workflow would change. */
const configuration = (name: string, prefix = "") => ({
  name,
  main: "worker.ts",
  compatibility_date: "2026-10-01",
  compatibility_flags: ["nodejs_compat", "queue_consumer_no_wait_for_wait_until"],
  vars: { MILLRACE_KEY: "test", ...(prefix && { QUEUE_PREFIX: prefix }) },
  d1_databases: [{ binding: "DB", database_name: name, database_id: name }],
  r2_buckets: [{ binding: "PAYLOADS", bucket_name: `${name}-payloads` }],
  exports: {
    Recorder: { type: "durable-object", storage: "sqlite" },
    Keeper: { type: "durable-object", storage: "sqlite" },
    Runs: { type: "workflow", name: `${name}-runs` },
  },
  queues: {
    producers: [{ binding: "MILLRACE_QUEUE", queue: `${prefix}millrace` }],
    consumers: [
      { queue: `${prefix}millrace`, max_batch_size: 10, max_batch_timeout: 0, max_retries: 3, dead_letter_queue: `${prefix}millrace-dlq` },
      { queue: `${prefix}millrace-dlq`, max_batch_size: 100, max_batch_timeout: 1, max_retries: 100 },
    ],
  },
});

it("a second workflow in the list of a Worker runs with the same configuration and the same exports", async () => {
  const config = configuration("one");
  const first = bundled(program([...GREET]), config);
  const runtime = await runtimeOf(first);
  const { runs, ask } = await prepared(runtime, "one");
  expect(await runs("greet", "Ada")).toMatchObject({ workflow: "greet", result: { said: "Good morning, Ada." } });
  expect(await ask("/v1/commands", { type: "part", payload: { name: "Ada" } })).toMatchObject({ code: "unknown_message_type" });

  await runtime.setOptions(running([bundled(program([...GREET], ["part", "Good bye"]), config)]));
  expect(await runs("part", "Ada")).toMatchObject({ workflow: "part", result: { said: "Good bye, Ada." } });
  expect(await runs("greet", "Bob")).toMatchObject({ workflow: "greet", result: { said: "Good morning, Bob." } });
});

it("two environments of one account with one catalog each consume their own queues, by QUEUE_PREFIX", async () => {
  const source = program([...GREET]);
  const [live, staging] = [bundled(source, configuration("live")), bundled(source, configuration("staging", "staging-"))];
  const runtime = await runtimeOf(live, staging);
  const [one, other] = [await prepared(runtime, "live"), await prepared(runtime, "staging")];
  expect(await other.runs("greet", "Ada")).toMatchObject({ result: { said: "Good morning, Ada." } });
  expect(await one.workflows()).toEqual([]);
  expect(await one.runs("greet", "Ada")).toMatchObject({ result: { said: "Good morning, Ada." } });
  expect(await other.workflows()).toEqual(["greet"]);
});

it("an engine runs on the schema of a later version: an instance completes, and a failed one is retried", async () => {
  const source = program([...GREET])
    .replace("workflows: [greet]", "workflows: [greet, part]")
    .replace(
      "export const { handler",
      `let failures = 0;
const part = defineWorkflow({
  name: "part",
  input: z.object({ name: z.string() }),
  key: ({ name }) => name,
  async run({ input, step }) {
    const { said } = await step.commit("say it", () => ({ output: { said: input.name } }));
    if (failures++ === 0) throw new Error("The door is shut.");
    return { said };
  },
});
export const { handler`,
    );
  const { runs, ask } = await prepared(await runtimeOf(bundled(source, configuration("late"))), "late", { isLater: true });
  expect(await ask("/healthz")).toMatchObject({ ok: true });
  expect(await runs("greet", "Ada")).toMatchObject({ result: { said: "Good morning, Ada." } });
  const { id } = await runs("part", "Ada", "errored");
  expect(await ask(`/v1/instances/${id}/retry`, { reason: "The error is fixed." })).toMatchObject({ action_id: expect.any(String) });
  expect(await runs("part", "Ada")).toMatchObject({ id, result: { said: "Ada" } });
});
