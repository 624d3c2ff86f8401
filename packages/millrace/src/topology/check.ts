import { MillraceError } from "../contract/errors.ts";
import type { MessageDefinition } from "../contract/message.ts";
import { laneIn, queuesOf } from "../contract/queue.ts";
import { transformIn } from "../contract/transforms.ts";
import { type ConsumerDefinition, routesOf, startedBy, workflowsOf } from "./consumer.ts";
import { targetsOf } from "./routes.ts";

/** Checks that a deployment's consumers fit together. Errors: `config_invalid`, which names the necessary change. */
export function checkConsumers(consumers: readonly ConsumerDefinition[]): void {
  const [mistake] = [
    ...queues(consumers),
    ...lanes(consumers),
    ...starts(consumers),
    ...routes(consumers),
    ...workflows(consumers),
    ...sent(consumers),
    ...transforming(consumers),
  ];
  if (mistake !== undefined) throw new MillraceError("config_invalid", mistake);
}

function queues(consumers: readonly ConsumerDefinition[]): string[] {
  const asked = startedBy(consumers).flatMap(({ on }) => (on.kind === "command" ? [on.queue.name] : []));
  const told = routesOf(consumers).flatMap(({ event }) => (isCommand(event) ? [] : [event.queue.name]));
  const said = [...startedBy(consumers).map(({ on }) => on.queue), ...routesOf(consumers).map(({ event }) => event.queue)];
  const mixed = told.filter((name) => asked.includes(name));
  return [
    ...mixed.map((name) => `The queue "${name}" carries commands and events: use another queue for the events.`),
    ...consumers
      .filter((consumer) => consumer.starts && consumer.routes)
      .map(
        ({ queue }) =>
          `The consumer of "${queue.name}" has both starts and routes: use starts for a queue of commands, or routes for a queue of events.`,
      ),
    ...consumers
      .filter(({ queue }) => said.some((other) => other.name === queue.name && String(queuesOf(other)) !== String(queuesOf(queue))))
      .map(
        ({ queue }) =>
          `The queue "${queue.name}" is declared twice, with different partitions, tenants or retired queues: declare it once.`,
      ),
    ...consumers.flatMap(({ queue: { name, parts } }) =>
      (parts?.retired ?? [])
        .filter((retired) => [...said, ...consumers.map(({ queue }) => queue)].some((other) => other.name === retired))
        .map((retired) => `The queue "${name}" lists "${retired}" as retired, but that queue is also declared: remove one of the two.`),
    ),
    ...consumers
      .flatMap(({ queue }) => queuesOf(queue))
      .filter((name, _, all) => all.includes(`${name}-dlq`))
      .map((name) => `The queue "${name}-dlq" has the name of the dead-letter queue of "${name}": rename it.`),
    ...twice(consumers.flatMap(({ queue }) => queuesOf(queue))).map(
      (name) => `The queue "${name}" has two consumers: merge them into one.`,
    ),
  ];
}

function lanes(consumers: readonly ConsumerDefinition[]): string[] {
  return consumers.flatMap(({ queue, onFailure, starts, batch, concurrency, priority, sequence }) => {
    const lane = laneIn(queue.name);
    if (lane === undefined) {
      return onFailure === undefined
        ? []
        : [
            `The consumer of "${queue.name}" has onFailure, which only lanes support: declare its queue with defineLaneQueue, or remove onFailure.`,
          ];
    }
    if (!onFailure || !["block", "park", "hold"].includes(onFailure)) {
      return [`The lane "${lane}" needs onFailure in its consumer: "block", "park" or "hold".`];
    }
    if (priority) return [`The lane "${lane}" has priority, which lanes do not support: remove it from its consumer.`];
    if (sequence)
      return [`The lane "${lane}" has sequence, but a gap would block the message that fills it: remove sequence, or use defineQueue.`];
    if (starts && batch.size !== 1)
      return [`The lane "${lane}" has batch, but starts workflows one after another: remove batch from its consumer.`];
    if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > MAX_LANE_CONCURRENCY) {
      return [`The lane "${lane}" has concurrency ${concurrency}: use 1 to ${MAX_LANE_CONCURRENCY} instances per key.`];
    }
    return [];
  });
}

/** The limit exists because a lane's object stores all its instances in progress as one value. */
const MAX_LANE_CONCURRENCY = 100;

function starts(consumers: readonly ConsumerDefinition[]): string[] {
  return consumers.flatMap(({ queue, starts = [] }) =>
    starts.flatMap(({ name, on }) => {
      if (on.kind === "event")
        return [
          `"${name}" follows the event "${on.type}", but starts is for workflows that perform a command: ` +
            `add start(…) to the on(…) of that event, in the routes of ${consumerOf(on)}.`,
        ];
      if (on.queue.name === queue.name) return [];
      return [
        `"${name}" performs "${on.type}", which uses the queue "${on.queue.name}", but the consumer of "${queue.name}" starts it: ` +
          `move it to the starts of ${consumerOf(on)}.`,
      ];
    }),
  );
}

function routes(consumers: readonly ConsumerDefinition[]): string[] {
  const astray = consumers.flatMap(({ queue, routes = [] }) =>
    routes.flatMap(({ event }) => {
      if (isCommand(event))
        return [`"${event.type}" is a command, but routes are for events: list its workflow in the starts of ${consumerOf(event)}.`];
      if (event.queue.name === queue.name) return [];
      return [
        `"${event.type}" uses the queue "${event.queue.name}", but the consumer of "${queue.name}" routes it: ` +
          `move its on(…) to ${consumerOf(event)}.`,
      ];
    }),
  );
  const lines = routesOf(consumers);
  return [
    ...astray,
    ...twice(lines.map(({ event }) => event.type)).map(
      (type) => `"${type}" has two entries in routes: put all its targets into one on(…).`,
    ),
    ...lines
      .filter(({ event }) => startedBy(consumers).some(({ on }) => on.kind === "command" && on.type === event.type))
      .map(({ event: { type } }) => `"${type}" is the type of a command and of an event: rename one of them.`),
    ...lines.flatMap((line) =>
      targetsOf(line).flatMap((target) =>
        target.do === "start" && target.follows !== line.event.type
          ? [`"${target.workflow.name}" follows "${target.follows}", but the route of "${line.event.type}" starts it: move its start(…).`]
          : [],
      ),
    ),
  ];
}

function workflows(consumers: readonly ConsumerDefinition[]): string[] {
  const all = workflowsOf(consumers);
  return [
    ...twice(all).map(({ name }) => `"${name}" is listed twice in starts and routes: remove one of the two.`),
    ...twice(all.map(({ name }) => name)).map((name) => `Two workflows are named "${name}": rename one.`),
    ...twice(startedBy(consumers).map(({ on }) => on.type)).map(
      (type) => `Two workflows perform "${type}": a command has one owner; make it an event, or two commands.`,
    ),
  ];
}

/** Lists commands that routes send although no workflow performs them or no consumer receives them. */
function sent(consumers: readonly ConsumerDefinition[]): string[] {
  const performed = new Set(startedBy(consumers).map(({ on }) => on.type));
  const consumed = new Set(consumers.map(({ queue }) => queue.name));
  return routesOf(consumers)
    .flatMap(targetsOf)
    .flatMap((target) => {
      if (target.do !== "send" || performed.has(target.command.type)) return [];
      const { type, queue } = target.command;
      if (!consumed.has(queue.name))
        return [`A route sends "${type}" on the queue "${queue.name}", which has no consumer: add one, with the workflow in starts.`];
      return [`A route sends "${type}", which no workflow performs: add its workflow to the starts of ${consumerOf(target.command)}.`];
    });
}

/** Lists payload schemas with transforms, because each instance of a chain would apply the transforms again. */
function transforming(consumers: readonly ConsumerDefinition[]): string[] {
  const messages = [...startedBy(consumers).map(({ on }) => on), ...routesOf(consumers).map(({ event }) => event)];
  return messages.flatMap(({ kind, type, payload }) => {
    const where = transformIn(payload);
    if (where === undefined) return [];
    return [
      `The schema of the ${kind} "${type}" has a transform at ${where}, which would be applied again at every hop. ` +
        "Validate and fill in defaults in the schema; change the payload before it is sent, or in the code that reads it.",
    ];
  });
}

const consumerOf = ({ queue }: MessageDefinition) => `the consumer of "${queue.name}"`;
const isCommand = (message: MessageDefinition): boolean => message.kind === "command";

function twice<T>(all: readonly T[]): T[] {
  return all.filter((one, index) => all.indexOf(one) !== index);
}
