import { expect, it } from "vitest";
import { mistakesIn } from "../../packages/millrace/cli/wiring/mistakes.ts";
import { command, consumer, credit, event, letters, orders, type Shop, shop, told } from "./shop.ts";

it("a project with complete bindings has no reported error", () => {
  expect(told(shop())).toEqual([]);
});

it("a Workflow class without a Millrace workflow is an error only if the engine would start the class", () => {
  const own = shop();
  own.config.workflows?.push({ binding: "OLD", name: "old", class_name: "Old" });
  Object.assign(own.known.classes, { Old: null });
  expect(told(own)).toEqual([]);
  own.config.workflows?.push({ binding: "OTHER", name: "staging-place-order", class_name: "PlaceOrder" });
  expect(told(own)).toEqual([{ says: expect.stringContaining('PlaceOrder runs "place-order", but it is bound as'), stops: true }]);
  own.config.workflows = [{ binding: "PLACE_ORDER", name: "staging-place-order", class_name: "PlaceOrder" }];
  expect(told(own)).toEqual([]);
  own.config.workflows = [{ binding: "PLACE_ORDER", name: "old", class_name: "Old" }];
  expect(told(own)).toEqual([{ says: expect.stringContaining('Old runs no workflow, but it is bound as "old"'), stops: true }]);
  delete own.known.classes.Old;
  own.config.workflows = [
    { binding: "PLACE_ORDER", name: "place-order", class_name: "PlaceOrder" },
    { binding: "OLD", name: "old", class_name: "Old" },
  ];
  expect(told(own)).toEqual([
    { says: 'The class of "old" is not exported. Add this line to src/worker.ts: export { Old } from "./…";', stops: true },
  ]);
});

it("a lane needs no queue, but a binding of the Lanes Durable Object", () => {
  const withLane = () => {
    const lanes = shop();
    lanes.known.consumers.push({ ...orders, queue: "lane:customers" });
    return lanes;
  };
  expect(told(withLane())).toEqual([
    {
      says:
        'The messages of "lane:customers" have no object to wait in. Add in wrangler.jsonc to "durable_objects.bindings": ' +
        '{ "name": "LANES", "class_name": "Lanes" } and to "migrations", with a new tag: "new_sqlite_classes": ["Lanes"]',
      stops: false,
    },
  ]);
  const bound = withLane();
  bound.config.durable_objects?.bindings?.push({ name: "LANES", class_name: "Lanes" });
  bound.config.migrations = [{ new_sqlite_classes: ["Lanes"] }];
  expect(told(bound).map(({ says }) => says)).toEqual([expect.stringContaining("export class Lanes extends engineLanes(app) {}")]);
  expect(told({ ...bound, known: { ...bound.known, classes: { ...bound.known.classes, Lanes: null } } })).toEqual([]);
});

it("a lane of another Worker needs no Durable Object class in this Worker, and may be bound with script_name", () => {
  const apart = shop();
  apart.known.consumers.push({ ...orders, queue: "lane:customers", isElsewhere: true });
  expect(told(apart)).toEqual([]);
  apart.config.durable_objects?.bindings?.push({ name: "LANES", class_name: "Lanes", script_name: "customers" });
  expect(told(apart)).toEqual([]);
});

/** A Worker of `millrace({ … })`, with its classes declared in `exports`. */
function greeter(): Shop {
  const object = { type: "durable-object", storage: "sqlite" };
  const queue = { ...orders, queue: "millrace" };
  return {
    config: {
      name: "greeter",
      main: "worker.ts",
      exports: { Recorder: object, Keeper: object, Runs: { type: "workflow", name: "greeter-runs" } },
      queues: {
        producers: [{ binding: "MILLRACE_QUEUE", queue: "millrace" }],
        consumers: [
          { ...consumer, queue: "millrace", dead_letter_queue: "millrace-dlq" },
          { ...letters, queue: "millrace-dlq" },
        ],
      },
    },
    known: {
      ...{ consumers: [queue], workflows: ["greet"], messages: [], definitions: [], declared: [] },
      classes: { Runs: null, Recorder: null, Keeper: null },
    },
    text: "export const { handler, Runs, Recorder, Keeper } = millrace({ workflows: [greet] });",
  };
}

const toldOf = ({ config, known, text }: Shop) => mistakesIn(config, known, [{ file: "worker.ts", text }], []).map(({ says }) => says);

it("a class in the exports of wrangler.jsonc needs no binding", () => {
  expect(toldOf(greeter())).toEqual([]);
  const staging = greeter();
  staging.config.vars = { QUEUE_PREFIX: "staging-" };
  staging.config.queues = {
    producers: [{ binding: "MILLRACE_QUEUE", queue: "staging-millrace" }],
    consumers: [
      { ...consumer, queue: "staging-millrace", dead_letter_queue: "staging-millrace-dlq" },
      { ...letters, queue: "staging-millrace-dlq" },
    ],
  };
  expect(toldOf(staging)).toEqual([]);
  const lanes = greeter();
  lanes.known.consumers.push({ ...orders, queue: "lane:customers" });
  Object.assign(lanes.known.classes, { Lanes: null });
  Object.assign(lanes.config.exports ?? {}, { Lanes: { type: "durable-object", storage: "sqlite" } });
  expect(toldOf(lanes)).toEqual([]);
});

it.each<[string, (greeter: Shop) => void, string]>([
  [
    "a class of millrace() that is not exported",
    ({ known }) => delete known.classes.Keeper,
    '"exports" in wrangler.jsonc has the Durable Object Keeper, which is not exported. ' +
      "Add this to worker.ts: export const { handler, Runs, Recorder, Keeper } = millrace({ … });",
  ],
  [
    "a Durable Object class that is not declared",
    ({ config }) => delete config.exports?.Keeper,
    'The Durable Object Keeper of the engine is not declared. Add this line to "exports" in wrangler.jsonc: ' +
      '"Keeper": { "type": "durable-object", "storage": "sqlite" }',
  ],
  [
    "a missing Workflow class",
    ({ config }) => delete config.exports?.Runs,
    'No Workflow class runs "greet". Add this line to "exports" in wrangler.jsonc: "Runs": { "type": "workflow", "name": "greeter-runs" }',
  ],
  [
    "the default queue without its binding",
    ({ config }) => config.queues?.producers?.pop(),
    'The queue "millrace" is not bound. Add in wrangler.jsonc to "queues.producers": { "binding": "MILLRACE_QUEUE", "queue": "millrace" }',
  ],
  [
    "a QUEUE_PREFIX with which no queue's name begins",
    ({ config }) => Object.assign(config, { vars: { QUEUE_PREFIX: "stg-" } }),
    'QUEUE_PREFIX is "stg-", but no queue in wrangler.jsonc begins with it. ' +
      'Begin the names of all queues with it, such as "queue": "stg-millrace", or remove QUEUE_PREFIX from "vars".',
  ],
  [
    "a lane without a declared Durable Object class",
    ({ known }) => known.consumers.push({ ...orders, queue: "lane:customers" }),
    'The messages of "lane:customers" have no object to wait in. Add this line to "exports" in wrangler.jsonc: ' +
      '"Lanes": { "type": "durable-object", "storage": "sqlite" }',
  ],
  [
    "a workflow that millrace() does not list",
    ({ known }) =>
      known.definitions.push({ ...credit, queue: "millrace", file: "src/fulfil.ts", name: "fulfil", workflow: "fulfil", on: "fulfil" }),
    'millrace({ … }) does not list "fulfil" (src/fulfil.ts). Add to `workflows: […]` in worker.ts: fulfil, from "./src/fulfil.ts".',
  ],
  [
    "an event without a consumer",
    ({ known }) => known.messages.push({ ...event, queue: "shop-events", known: false }),
    'The event "order.packed" (src/messages/orders.ts) has no route: each would become a dead letter. ' +
      "Add to `consumers: […]` of millrace({ … }) in worker.ts: defineConsumer({ queue: shopEvents, routes: [on(OrderPacked)] }).",
  ],
  [
    "a consumer that millrace() does not list",
    ({ known }) => known.declared.push({ file: "src/events.ts", name: "shopEvents", queue: "shop-events" }),
    'The catalog does not know the consumer of "shop-events" (src/events.ts). ' +
      'Add to `consumers: […]` of millrace({ … }) in worker.ts: shopEvents, from "./src/events.ts".',
  ],
])('the mistake "%s" is reported with the line to add', (_, breaks, says) => {
  const broken = greeter();
  breaks(broken);
  expect(toldOf(broken)).toEqual([says]);
});

type Break = (shop: Shop) => void;

it.each<[string, Break, string, boolean]>([
  [
    "a Workflow class that is not exported",
    ({ known }) => delete known.classes.PlaceOrder,
    'The class of "place-order" is not exported. Add this line to src/worker.ts: import { placeOrder } from "./workflows/place-order.ts"; export class PlaceOrder extends entrypoint(placeOrder, app) {}',
    true,
  ],
  [
    "a class bound to another workflow",
    ({ known }) => (known.classes.PlaceOrder = "credit-loyalty"),
    'PlaceOrder runs "credit-loyalty", but it is bound as "place-order" in wrangler.jsonc. In src/worker.ts: import { placeOrder } from "./workflows/place-order.ts"; export class PlaceOrder extends entrypoint(placeOrder, app) {}',
    true,
  ],
  [
    "a Durable Object class that is not exported",
    ({ known }) => delete known.classes.Stock,
    'wrangler.jsonc binds STOCK to the class Stock, which is not exported. Add this to src/worker.ts: export { Stock } from "./…";',
    true,
  ],
  [
    "an entrypoint that is not exported",
    ({ known }) => delete known.classes.Desk,
    'wrangler.jsonc binds DESK to the entrypoint Desk, which is not exported. Add this to src/worker.ts: export { Desk } from "./…";',
    true,
  ],
  [
    "a workflow that is not bound",
    ({ config }) => config.workflows?.pop(),
    '"place-order" is not bound. Add this line to "workflows" in wrangler.jsonc: { "binding": "PLACE_ORDER", "name": "place-order", "class_name": "PlaceOrder" }',
    false,
  ],
  [
    "a workflow that is bound under another name",
    ({ config }) => (config.workflows = [{ binding: "ORDER", name: "place-order", class_name: "PlaceOrder" }]),
    '"place-order" is bound as ORDER, but the engine looks for PLACE_ORDER. In "workflows" of wrangler.jsonc: { "binding": "PLACE_ORDER", "name": "place-order", "class_name": "PlaceOrder" }',
    false,
  ],
  [
    "a workflow that no consumer starts",
    ({ known }) => known.definitions.push(credit),
    'No consumer starts "credit-loyalty" (src/workflows/credit.ts). Add to starts in src/consumers/orders.ts: creditLoyalty, from "../workflows/credit.ts".',
    false,
  ],
  [
    "a workflow that no consumer starts, and whose command has no other workflow",
    ({ known }) => {
      known.messages.push({ ...command, name: "OrderCredit", type: "order.credit", known: false });
      known.definitions.push({ ...credit, on: "order.credit" });
    },
    'No consumer starts "credit-loyalty" (src/workflows/credit.ts). Add to starts in src/consumers/orders.ts: creditLoyalty, from "../workflows/credit.ts".',
    false,
  ],
  [
    "a workflow with a queue that has no consumer",
    ({ known }) => known.definitions.push({ ...credit, queue: "credit-commands" }),
    'No consumer starts "credit-loyalty" (src/workflows/credit.ts). Its queue has no consumer: write src/consumers/credit-commands.ts with defineConsumer({ queue: creditCommands, starts: [creditLoyalty] }), and list it in src/consumers/index.ts.',
    false,
  ],
  [
    "a workflow that no route starts",
    ({ known }) => known.definitions.push({ ...credit, kind: "event", on: "order.packed" }),
    'No route starts "credit-loyalty" (src/workflows/credit.ts). Add start(creditLoyalty) to the line of "order.packed" in src/consumers/orders.ts.',
    false,
  ],
  [
    "a consumer that the catalog does not list",
    ({ known }) => {
      known.declared.push({ file: "src/consumers/credit-commands.ts", name: "crediting", queue: "credit-commands" });
      known.messages.push({ ...command, name: "OrderCredit", type: "order.credit", queue: "credit-commands", known: false });
      known.definitions.push({ ...credit, on: "order.credit", queue: "credit-commands" });
    },
    'The catalog does not know the consumer of "credit-commands" (src/consumers/credit-commands.ts). Add this line to src/consumers/index.ts: export { crediting } from "./credit-commands.ts";',
    false,
  ],
  [
    "a queue without a producer",
    ({ config }) => config.queues?.producers?.pop(),
    'The queue "orders" is not bound. Add in wrangler.jsonc to "queues.producers": { "binding": "ORDERS", "queue": "orders" }',
    false,
  ],
  [
    "a queue without a consumer",
    ({ config }) => config.queues?.consumers?.shift(),
    `No consumer receives the messages of the queue "orders". Add in wrangler.jsonc to "queues.consumers": { "queue": "orders", "max_batch_size": 10, "max_batch_timeout": 0, "max_retries": 3, "max_concurrency": 5, "dead_letter_queue": "orders-dlq" }`,
    false,
  ],
  [
    "a dead-letter queue without a consumer",
    ({ config }) => config.queues?.consumers?.pop(),
    'No consumer stores the dead letters of the queue "orders": the platform deletes them after 4 days. Add in wrangler.jsonc to "queues.consumers": { "queue": "orders-dlq", "max_batch_size": 100, "max_batch_timeout": 1, "max_retries": 100, "max_concurrency": 1 }',
    false,
  ],
  [
    "a queue without a dead-letter queue",
    ({ config }) => delete config.queues?.consumers?.[0]?.dead_letter_queue,
    'The queue "orders" has no dead-letter queue: the platform deletes a message after 3 failed retries, and nothing reports it. Add to its consumer in wrangler.jsonc: "dead_letter_queue": "orders-dlq"',
    false,
  ],
  [
    "a consumer with missing settings in wrangler.jsonc, or with settings that differ from the code",
    ({ config }) => {
      Object.assign(config.queues?.consumers?.[0] ?? {}, { max_retries: 2, max_concurrency: undefined });
    },
    'The queue "orders" is not consumed as src/consumers/orders.ts says: max_retries is 2, max_concurrency is left to the platform. Put into its consumer in wrangler.jsonc "max_retries": 3, "max_concurrency": 5',
    false,
  ],
  [
    "a queue shard that wrangler.jsonc does not set up",
    ({ known }) => known.consumers.push({ ...orders, queue: "orders-acme", declaredAs: "orders" }),
    'The queue "orders-acme" is not set up. Add in wrangler.jsonc to "queues.producers": { "binding": "ORDERS_ACME", "queue": "orders-acme" } and to "queues.consumers": { "queue": "orders-acme", "max_batch_size": 10, "max_batch_timeout": 0, "max_retries": 3, "max_concurrency": 5, "dead_letter_queue": "orders-acme-dlq" } and to "queues.consumers": { "queue": "orders-acme-dlq", "max_batch_size": 100, "max_batch_timeout": 1, "max_retries": 100, "max_concurrency": 1 }',
    false,
  ],
  [
    "a queue shard with settings that differ from those of its consumer",
    ({ config: { queues = {} }, known }) => {
      known.consumers.push({ ...orders, queue: "orders-2", declaredAs: "orders" });
      queues.producers?.push({ binding: "ORDERS_2", queue: "orders-2" });
      queues.consumers?.push({ ...consumer, queue: "orders-2", max_retries: 2, dead_letter_queue: "orders-2-dlq" });
      queues.consumers?.push({ ...letters, queue: "orders-2-dlq" });
    },
    'The queue "orders-2" is not consumed as src/consumers/orders.ts says: max_retries is 2. Put into its consumer in wrangler.jsonc "max_retries": 3',
    false,
  ],
  [
    "an event without a route",
    ({ known }) => known.messages.push({ ...event, name: "OrderLost", type: "order.lost", known: false }),
    'The event "order.lost" (src/messages/orders.ts) has no route: each would become a dead letter. Add to routes in src/consumers/orders.ts: on(OrderLost), which declares it without a target.',
    false,
  ],
  [
    "an event with a queue that has no consumer",
    ({ known }) => known.messages.push({ ...event, name: "OrderLost", type: "order.lost", queue: "lost-events", known: false }),
    'The event "order.lost" (src/messages/orders.ts) has no route: each would become a dead letter. Its queue has no consumer: write src/consumers/lost-events.ts with defineConsumer({ queue: lostEvents, routes: [on(OrderLost)] }), and list it in src/consumers/index.ts.',
    false,
  ],
  [
    "an event that a workflow waits for, but that has no route",
    ({ known }) => known.messages.splice(1, 1, { ...event, known: false, signals: false }),
    'The event "order.packed" (src/messages/orders.ts) has no route: each would become a dead letter. Add to routes in src/consumers/orders.ts: on(OrderPacked, signal()), since src/workflows/place-order.ts:2 waits for it.',
    false,
  ],
  [
    "an event that must start a workflow, but that has no route",
    ({ known }) => {
      known.messages.push({ ...event, name: "OrderPaid", type: "order.paid", known: false });
      known.definitions.push({ ...credit, kind: "event", on: "order.paid" });
    },
    'The event "order.paid" (src/messages/orders.ts) has no route: each would become a dead letter. Add to routes in src/consumers/orders.ts: on(OrderPaid, start(creditLoyalty)), since "credit-loyalty" is declared on it.',
    false,
  ],
  [
    "a command without a workflow",
    ({ known }) => known.messages.push({ ...command, name: "OrderDrop", type: "order.drop", known: false }),
    'No workflow handles the command "order.drop" (src/messages/orders.ts): each would be refused. Write one with on: OrderDrop, and list it in starts in src/consumers/orders.ts.',
    false,
  ],
  [
    "a wait for an event that no route signals",
    ({ known }) => known.messages.splice(1, 1, { ...event, signals: false }),
    'src/workflows/place-order.ts:2 waits for "order.packed", but no route signals waiting instances. Add signal() to its line in src/consumers/orders.ts: on(OrderPacked, signal()),',
    false,
  ],
  [
    "an environment variable that is not set",
    ({ config }) => delete config.vars,
    "src/workflows/place-order.ts:1 reads env.SHOP_NAME, which is set nowhere. Add SHOP_NAME=… to .dev.vars, or bind it in wrangler.jsonc. Declare an optional variable as SHOP_NAME?: string; in an interface.",
    false,
  ],
])('the configuration error "%s" is reported with the line to add', (_, breaks, says, stops) => {
  const broken = shop();
  breaks(broken);
  expect(told(broken)).toEqual([{ says, stops }]);
});

it("a consumer of another Worker needs no binding and no workflow in this Worker; a second consumer of its queue is reported", () => {
  const split = shop();
  const parcels = { ...orders, queue: "parcels", isElsewhere: true };
  split.known.consumers.push(parcels);
  split.known.workflows.push("send-parcel");
  split.known.elsewhere = ["send-parcel"];
  expect(told(split)).toEqual([]);
  split.config.queues?.consumers?.push({ ...consumer, queue: "parcels" });
  expect(told(split)).toMatchObject([
    { says: expect.stringContaining('The catalog says that another Worker consumes "parcels"'), stops: false },
  ]);
});
