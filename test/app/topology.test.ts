import { describe, expect, it } from "vitest";
import { app } from "../../src/catalog.ts";
import { bindingName } from "../../src/engine/contract/bindings.ts";
import { DEAD_LETTER_CONCURRENCY } from "../../src/engine/topology/consumer.ts";
import * as queues from "../../src/messages/queues.ts";
import worker from "../../src/worker.ts?raw";
import wrangler from "../../wrangler.jsonc?raw";

interface Config {
  queues: { producers: unknown[]; consumers: { queue: string }[] };
  workflows: { name: string; binding: string; class_name: string }[];
}

const config = JSON.parse(wrangler.replace(/^\s*\/\/.*$/gm, "")) as Config;

describe.each(app.consumers)("The queue $queue.name", ({ queue, batch, retries, concurrency }) => {
  it("is bound under its own name and consumed as declared, with a dead-letter queue that is consumed too", () => {
    expect(config.queues.producers).toContainEqual(expect.objectContaining({ binding: bindingName(queue.name), queue: queue.name }));
    expect(config.queues.consumers).toContainEqual({
      queue: queue.name,
      max_batch_size: batch.size,
      max_batch_timeout: batch.waitSeconds,
      max_retries: retries.limit,
      max_concurrency: concurrency,
      dead_letter_queue: `${queue.name}-dlq`,
    });
    expect(config.queues.consumers).toContainEqual(
      expect.objectContaining({ queue: `${queue.name}-dlq`, max_concurrency: DEAD_LETTER_CONCURRENCY }),
    );
  });

  it("has a name of the form purpose[-tenant]", () => {
    expect(queue.name).toMatch(/^[a-z]+(-[a-z]+)*$/);
    expect(queue.name).not.toMatch(/-dlq$/);
  });
});

it("every queue has a consumer", () => {
  const declared = Object.values(queues).map(({ name }) => name);
  expect(app.consumers.map(({ queue }) => queue.name).toSorted()).toEqual(declared.toSorted());
});

it("every consumer of wrangler.jsonc belongs to a declared queue, or to its dead letters", () => {
  const declared = Object.values(queues).flatMap(({ name }) => [name, `${name}-dlq`]);
  expect(config.queues.consumers.map(({ queue }) => queue).toSorted()).toEqual(declared.toSorted());
});

it("every workflow of the catalog is bound under its own name, and every bound one is exported", () => {
  const bound = Object.fromEntries(config.workflows.map(({ name, binding }) => [name, binding]));
  expect(bound).toEqual(Object.fromEntries(app.workflows.map(({ name }) => [name, bindingName(name)])));
  for (const { class_name } of config.workflows) expect(worker).toContain(`export class ${class_name} extends entrypoint(`);
});
