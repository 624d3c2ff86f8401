import { describe, expect, it } from "vitest";
import severalWorkers from "../../docs/several-workers.md?raw";
import { bindingName } from "../../packages/millrace/src/contract/bindings.ts";
import { DEAD_LETTER_CONCURRENCY } from "../../packages/millrace/src/topology/consumer.ts";
import { messagesIn, queuesIn } from "../../packages/millrace/src/topology/described.ts";
import { app } from "../../src/catalog.ts";
import * as queues from "../../src/messages/queues.ts";
import worker from "../../src/worker.ts?raw";
import wrangler from "../../wrangler.jsonc?raw";
import { rowsOf } from "../docs/markdown.ts";

const sources = import.meta.glob<string>("../../src/workflows/*.ts", { query: "?raw", import: "default", eager: true });
const messages = Object.assign(
  {},
  ...Object.values(import.meta.glob<object>("../../src/messages/*.ts", { query: "", import: "*", eager: true })),
) as Record<string, { type: string }>;

type Line = Record<string, string | number>;

interface Config {
  queues: { producers: Line[]; consumers: (Line & { queue: string })[] };
  workflows: (Line & { name: string; binding: string; class_name: string })[];
}

const config = JSON.parse(wrangler.replace(/^\s*\/\/.*$/gm, "")) as Config;
const declared = Object.values(queues).map(({ name }) => name);
const consumed = app.consumers.map(({ queue }) => queue.name);

/** The missing parts of a line in a list of wrangler.jsonc, which may contain more: a sentence that ends with the line to write. */
function lacking(list: string, lines: readonly Line[], line: Line): string[] {
  const has = (one: Line) => Object.entries(line).every(([field, value]) => one[field] === value);
  return lines.some(has) ? [] : [`Add this line to "${list}" of wrangler.jsonc: ${JSON.stringify(line)}`];
}

/** Asserts that there is no error, and lists the errors. */
function nothingOf(wrong: readonly string[]): void {
  expect(wrong, wrong.join("\n")).toEqual([]);
}

describe.each(app.consumers)("The queue $queue.name", ({ queue: { name }, batch, retries, concurrency }) => {
  it("a declared queue is bound under its own name and consumed as declared, with a dead-letter queue that is consumed too", () => {
    const { producers, consumers } = config.queues;
    const consumer = {
      ...{ queue: name, max_batch_size: batch.size, max_batch_timeout: batch.waitSeconds, max_retries: retries.limit },
      ...{ max_concurrency: concurrency, dead_letter_queue: `${name}-dlq` },
    };
    const letters = { queue: `${name}-dlq`, max_batch_size: 100, max_batch_timeout: 1, max_retries: 100 };
    nothingOf([
      ...lacking("queues.producers", producers, { binding: bindingName(name), queue: name }),
      ...lacking("queues.consumers", consumers, consumer),
      ...lacking("queues.consumers", consumers, { ...letters, max_concurrency: DEAD_LETTER_CONCURRENCY }),
    ]);
  });

  it("a declared queue has a name of the form purpose[-tenant], or purpose[-number]", () => {
    expect(name).toMatch(/^[a-z]+(-[a-z]+)*(-[a-z0-9]+)?$/);
    expect(name).not.toMatch(/-dlq$/);
  });
});

it("every queue has a consumer", () => {
  const alone = declared.filter((name) => !consumed.includes(name));
  nothingOf(alone.map((name) => `The queue "${name}" has no consumer: list its consumer in src/consumers/index.ts.`));
  nothingOf(consumed.filter((name) => !declared.includes(name)));
});

it("every consumer of wrangler.jsonc belongs to a declared queue, or to its dead letters, and each queue has one", () => {
  const names = config.queues.consumers.map(({ queue }) => queue);
  const strange = names.filter((name) => !declared.includes(name.replace(/-dlq$/, "")));
  nothingOf(strange.map((name) => `wrangler.jsonc consumes "${name}", which src/messages/queues.ts does not contain.`));
  nothingOf(names.filter((name, at) => names.indexOf(name) !== at).map((name) => `wrangler.jsonc consumes "${name}" twice.`));
});

it("every workflow of the catalog is bound under its own name, and every bound one is in the catalog and exported", () => {
  const known = app.workflows.map(({ name }) => name);
  nothingOf([
    ...known.flatMap((name) => lacking("workflows", config.workflows, { binding: bindingName(name), name, class_name: className(name) })),
    ...config.workflows
      .filter(({ name }) => !known.includes(name))
      .map(({ name }) => `wrangler.jsonc binds the workflow "${name}", which no consumer starts.`),
    ...config.workflows
      .filter(({ class_name }) => !worker.includes(`export class ${class_name} extends entrypoint(`))
      .map(({ class_name, name }) => `Export ${class_name}, the class of "${name}", from src/worker.ts.`),
  ]);
});

const className = (name: string) => name.replaceAll(/(?:^|-)([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

describe("the map of docs/several-workers.md", () => {
  /** The workflows with a message of the queue in their own file. */
  const emittersOf = (types: readonly string[]) =>
    app.workflows
      .map(({ name }) => name)
      .filter((name) => {
        const text = sources[`../../src/workflows/${name}.ts`] ?? "";
        return Object.entries(messages).some(([as, one]) => types.includes(one.type) && new RegExp(`\\b${as}\\.from\\(`).test(text));
      });
  const told = rowsOf(severalWorkers, "queue").map(([queue = "", producers = "", starts = ""]) => ({ queue, producers, starts }));

  it("the map of docs/several-workers.md has a row for each queue, with its producers and workflows as in the catalog", () => {
    const known = messagesIn(app);
    const drawn = queuesIn(app).map(({ name, producers, messages: types }) => {
      const started = app.workflows.filter(({ on }) => types.includes(on.type)).map(({ name: workflow }) => workflow);
      const projects = known.some(
        ({ definition: { type }, targets }) => types.includes(type) && targets.some(({ do: what }) => what === "project"),
      );
      const senders = [
        ...producers.map(({ by, name: as }) => (by === "request" ? as : `route of ${as}`)),
        ...emittersOf(types).filter((workflow) => !started.includes(workflow)),
      ];
      return {
        queue: name,
        producers: senders.map((one) => `\`${one}\``).join(", ") || "the engine",
        starts: started.map((one) => `\`${one}\``).join(", ") || (projects ? "rows" : "routes"),
      };
    });
    expect(told).toEqual(drawn);
  });
});
