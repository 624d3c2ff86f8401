import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, expect, it } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");

/** The beginning of an author's file; each line of a test below is in its own function after it. */
const HEAD = `
import * as z from "zod";
import { defineCommand, defineQueue, defineStep, defineWorkflow, on, send, signal, start, type EffectCall, type Steps } from "${ROOT}/packages/millrace/src/index.ts";
import type { Target } from "${ROOT}/packages/millrace/src/topology/routes.ts";
import { OrderDelivered, OrderPaid, OrderShip, OrderShipped } from "${ROOT}/test/docs/examples/messages.ts";
declare const step: Steps;
declare const id: string;
declare const db: D1Database;
interface Label { readonly id: string; parcels: readonly { weight?: number }[]; size: [number, number] | null }
declare const label: Label;
const book = defineStep({ effect: "natural", run: async ({ input }: EffectCall<{ path: string }>) => ({ url: input.path }) });
const thank = defineWorkflow({ name: "thank", on: OrderShipped, run: async ({ payload }) => payload.email });
`;

const UNNAMEABLE = `'"A step name is a literal; put data into { key }"'`;

/** A type error, and a part of the compiler's message about it. */
const MISTAKES: readonly [mistake: string, said: string, ...more: string[]][] = [
  [`await step.read(\`load \${id}\`, async () => 1);`, UNNAMEABLE],
  ["await step.read(id, async () => 1);", UNNAMEABLE],
  ["await step.commit('at ' + Date.now(), () => ({}));", UNNAMEABLE],
  [`await step.effect(\`book \${Date.now()}\`, book, { path: 'a' });`, UNNAMEABLE],
  [`await step.sleep(\`rest \${id}\`, '1 day');`, UNNAMEABLE],
  [`await step.waitFor(\`hear of \${id}\`, OrderPaid, { subject: id });`, UNNAMEABLE],
  [`await step.approve(\`agree to \${id}\`, { question: 'Really?' });`, UNNAMEABLE],

  ["await step.effect('book', book, { path: 1 });", "Type 'number' is not assignable to type 'string'."],
  ["await step.effect('book', book, { paht: 'a' });", "'paht' does not exist in type '{ path: string; }'"],
  ["defineStep({ effect: 'lookup', run: async () => 1 });", "Property 'lookup' is missing", "required in type 'LookupStep<"],
  [
    "defineStep({ effect: 'lookup', run: async () => 1, look: async () => undefined });",
    "'look' does not exist in type 'LookupStep<unknown, number>'",
  ],
  ["await step.sleep('rest', '2 fortnights');", "Argument of type '\"2 fortnights\"' is not assignable to parameter of type 'Duration'."],

  ["OrderPaid.from({ order_id: 1, email: 'a' });", "Type 'number' is not assignable to type 'string'."],
  ["await step.waitFor('hear', OrderShip, { subject: id });", "CommandDefinition<", '"order.ship"', "parameter of type 'EventDefinition<"],
  ["on(OrderShip, signal());", "CommandDefinition<", '"order.ship"', "parameter of type 'EventDefinition<"],
  ["on(OrderPaid, send(OrderDelivered, (order: { order_id: string; email: string }) => order));", "parameter of type 'CommandDefinition<"],
  ["on(OrderPaid, start(thank));", `'Start<"order.shipped">' is not assignable to parameter of type 'Target<`, ', "order.paid">'],

  ["step.read('look', async () => ({ cents: 1 })).cents;", "Property 'cents' does not exist on type 'Promise<{ cents: number; }>'"],
  ["await step.commit('note', () => ({ output: { at: new Date() } }));", "A Date comes back from JSON as text: return its toISOString()"],
  ["await step.commit('note', async () => ({ output: { at: new Date() } }));", "A Date comes back from JSON as text: return its toISO"],
  ["await step.commit('note', () => ({ output: () => 1 }));", "JSON has no functions and no symbols: return plain data"],
  ["await step.read('look', async () => new Map([[id, 1]]));", "A Map or a Set is {} in JSON: return [...it]"],
  ["await step.read('look', async () => ({ ids: new Set([id]) }));", "A Map or a Set is {} in JSON: return [...it]"],
  ["await step.read('look', async () => ({ cents: 1n }));", "JSON has no bigint: return its toString()"],
  ["await step.read('look', async () => db);", "JSON keeps no methods: return plain data instead of an object of a class"],
  [
    "await step.read('look', () => fetch('https://example.com'));",
    "JSON keeps no methods: return plain data instead of an object of a class",
  ],
  ["await step.read('look', async () => [new Uint8Array(1)]);", "JSON keeps no methods: return plain data instead of an object of a class"],
  ["await step.read('look', async () => ({ body: Promise.resolve(1) }));", "A promise is {} in JSON: await it"],
  [
    "defineStep({ effect: 'once', run: async () => ({ at: new Date() }) });",
    "A Date comes back from JSON as text: return its toISOString()",
  ],
  ["defineWorkflow({ name: 'a', on: OrderPaid, run: async () => new Map([[id, 1]]) });", "A Map or a Set is {} in JSON: return [...it]"],
  [
    "defineWorkflow({ name: 'a', on: OrderPaid, run: async () => ({ at: new Date() }) });",
    "A Date comes back from JSON as text: return its toISOString()",
  ],
  [
    "defineWorkflow({ name: 'a', on: OrderPaid, run: async ({ payload }) => (payload.email ? db : undefined) });",
    "JSON keeps no methods: return plain data instead of an object of a class",
  ],
];

/** Code that must compile. */
const RIGHT: readonly string[] = [
  "const found: Label = await step.read('look', async () => label);",
  "const found: { url: string } = await step.effect('book', book, { path: id });",
  "const nothing: undefined = await step.commit('note', () => ({}));",
  "const one: Label | null = await step.commit('note', async () => (id ? { output: label } : { output: null }));",
  "const any: unknown = await step.read('look', async (): Promise<unknown> => JSON.parse(id));",
  "await step.read('look', async () => {});",
  "const all: Label[] = await step.map([id], { key: String }, (_, each) => each.read('look', async () => label));",
  "const { email } = await step.waitFor('hear', OrderPaid, { subject: id });",
  "defineStep({ effect: 'lookup', run: async () => label, lookup: async () => undefined, output: z.custom<Label>() });",
  "defineStep({ effect: 'once', run: async () => label, undo: { effect: 'natural', run: async ({ input }) => input.output.parcels } });",
  "on(OrderShipped, start(thank), send(OrderShip, ({ order_id, email }) => ({ order_id, email, parcels: [] })));",
  "defineWorkflow({ name: 'a', on: OrderPaid, run: async ({ step }) => ({ label: await step.read('look', async () => label), at: undefined }) });",
  "defineWorkflow({ name: 'a', on: OrderPaid, async run({ step }) { if (id) return { done: true }; await step.commit('note', () => ({})); } });",
  "const shared = <T extends { order_id: string }>(): Target<T> => signal(); on(OrderPaid, shared()); on(OrderShipped, shared(), start(thank));",
];

const folder = mkdtempSync(join(ROOT, "node_modules/.compiler-says-"));
afterAll(() => rmSync(folder, { recursive: true }));
const said = compile([...MISTAKES.map(([mistake]) => mistake), ...RIGHT]);

it.each(MISTAKES)("%s", (mistake, ...sentences) => {
  for (const sentence of sentences) expect(said(mistake)).toContain(sentence);
});

it.each(RIGHT)("the code compiles: %s", (right) => {
  expect(said(right)).toBe("");
});

/** Compiles each line in a separate file, all at once; returns the compiler's messages for a line. */
function compile(lines: readonly string[]): (line: string) => string {
  for (const [index, line] of lines.entries()) {
    writeFileSync(join(folder, `${index}.ts`), `${HEAD}\nexport async function author() {\n${line}\n}\n`);
  }
  const types = ["@cloudflare/workers-types", "node"];
  writeFileSync(
    join(folder, "tsconfig.json"),
    JSON.stringify({
      extends: join(ROOT, "tsconfig.json"),
      compilerOptions: { types },
      include: [],
      files: lines.map((_, index) => `${index}.ts`),
    }),
  );
  const { stdout } = spawnSync(join(ROOT, "node_modules/.bin/tsc"), ["-p", folder, "--pretty", "false", "--singleThreaded"], {
    encoding: "utf8",
  });
  const messages = new Map<string, string>();
  for (const [, file, message] of stdout.matchAll(/^(\S+?)\(\d+,\d+\): error \w+: (.*(?:\n .*)*)/gm)) {
    const name = (file as string).split("/").at(-1) as string;
    messages.set(name, `${messages.get(name) ?? ""}${message}\n`);
  }
  return (line) => messages.get(`${lines.indexOf(line)}.ts`) ?? "";
}
