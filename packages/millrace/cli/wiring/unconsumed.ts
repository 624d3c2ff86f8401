import { camel, type Known, ownName, pathFrom } from "./known.ts";
import { lineAt, type Source } from "./sources.ts";

/** The file that messages suggest for consumers, if the Worker does not call millrace(). */
const LIST = "src/consumers/index.ts";

const entryIn = (sources: readonly Source[]) => sources.find(({ text }) => /\bmillrace\(/.test(text))?.file;

/** Reports definitions that no consumer lists: workflows without a start, messages without a consumer, and waits without an event. */
export function unconsumed(known: Known, sources: readonly Source[]): string[] {
  const entry = entryIn(sources);
  const unlisted = known.declared.filter(({ queue }) => !known.consumers.some((one) => one.queue === queue));
  // Workflows and routes of an unlisted consumer are not reported until the consumer is listed.
  const isPending = ({ queue }: { queue: string }) => unlisted.some((one) => one.queue === queue);
  const left = {
    ...known,
    definitions: known.definitions.filter((one) => !isPending(one)),
    messages: known.messages.filter((one) => one.known || !isPending(one)),
  };
  return [
    ...unlisted.map(
      ({ file, name, queue }) =>
        `The catalog does not know the consumer of "${queue}" (${file}). ` +
        (entry === undefined
          ? `Add this line to ${LIST}: export { ${name} } from "${pathFrom(LIST, file)}";`
          : `Add to \`consumers: […]\` of millrace({ … }) in ${entry}: ${name}${importOf(entry, file)}.`),
    ),
    ...workflows(left, entry),
    ...messages(left, sources, entry),
    ...waits(left, sources),
  ];
}

/** Reports workflows without a start. If a workflow starts on an event without a route, it is reported together with the event. */
function workflows(known: Known, entry: string | undefined): string[] {
  return known.definitions
    .filter(({ workflow }) => !known.workflows.includes(workflow))
    .flatMap(({ file, name, workflow, on, kind, queue }) => {
      if (kind === "command" && entry !== undefined) {
        return [
          `millrace({ … }) does not list "${workflow}" (${file}). Add to \`workflows: […]\` in ${entry}: ${name}${importOf(entry, file)}.`,
        ];
      }
      if (kind === "command") {
        const from = pathFrom(fileOf(known, queue), file);
        return [`No consumer starts "${workflow}" (${file}). ${toList(known, queue, "starts", name, `, from "${from}".`, entry)}`];
      }
      if (!known.messages.some((message) => message.type === on && message.known)) return [];
      return [`No route starts "${workflow}" (${file}). Add start(${name}) to the line of "${on}" in ${fileOf(known, queue)}.`];
    });
}

/** Reports messages without a consumer. A command whose workflow has no start is reported together with this workflow. */
function messages(known: Known, sources: readonly Source[], entry: string | undefined): string[] {
  const taken = new Set(known.messages.filter((message) => message.known).map(({ type }) => type));
  const alone = known.messages.filter(({ type }, at, all) => !taken.has(type) && all.findIndex((one) => one.type === type) === at);
  return alone.flatMap(({ kind, type, file, name, queue }) => {
    if (kind === "event") {
      const { line, why } = routeOf(known, sources, type, name);
      const says = `The event "${type}" (${file}) has no route: each would become a dead letter.`;
      return [`${says} ${toList(known, queue, "routes", line, why, entry)}`];
    }
    if (known.definitions.some(({ on }) => on === type)) return [];
    const list = entry === undefined ? `starts in ${fileOf(known, queue)}` : `\`workflows: […]\` of millrace({ … }) in ${entry}`;
    return [
      `No workflow handles the command "${type}" (${file}): each would be refused. Write one with on: ${name}, and list it in ${list}.`,
    ];
  });
}

const importOf = (entry: string, file: string) => (file === entry ? "" : `, from "${pathFrom(entry, file)}"`);

/** The instruction to add a line to the consumer of a queue. `why` is the last part of the sentence if the queue already has a consumer. */
function toList(known: Known, queue: string, field: "starts" | "routes", what: string, why: string, entry: string | undefined): string {
  if (entry !== undefined && !known.declared.some((one) => one.queue === queue)) {
    const consumer = `defineConsumer({ queue: ${camel(ownName(queue))}, ${field}: [${what}] })`;
    return `Add to \`consumers: […]\` of millrace({ … }) in ${entry}: ${consumer}.`;
  }
  if (known.consumers.some((one) => one.queue === queue)) return `Add to ${field} in ${fileOf(known, queue)}: ${what}${why}`;
  const consumer = `defineConsumer({ queue: ${camel(ownName(queue))}, ${field}: [${what}] })`;
  return `Its queue has no consumer: write ${fileOf(known, queue)} with ${consumer}, and list it in ${LIST}.`;
}

function fileOf(known: Known, queue: string): string {
  return known.declared.find((one) => one.queue === queue)?.file ?? `src/consumers/${ownName(queue)}.ts`;
}

function routeOf(known: Known, sources: readonly Source[], type: string, name: string): { line: string; why: string } {
  const started = known.definitions.filter(({ on }) => on === type);
  const waiting = waitsIn(sources).filter((wait) => wait.name === name);
  const targets = [...started.map((one) => `start(${one.name})`), ...(waiting.length > 0 ? ["signal()"] : [])];
  if (targets.length === 0) return { line: `on(${name})`, why: ", which declares it without a target." };
  const wanted = [...started.map((one) => `"${one.workflow}" is declared on it`), ...waiting.map(({ place }) => `${place} waits for it`)];
  return { line: `on(${name}, ${targets.join(", ")})`, why: `, since ${wanted.join(" and ")}.` };
}

function waitsIn(sources: readonly Source[]): { name: string; place: string }[] {
  return sources.flatMap(({ file, text }) =>
    [...text.matchAll(/\.waitFor\(\s*"[^"]*",\s*(?:\w+\.)?(\w+)/g)].map(({ 1: name = "", index }) => ({
      name,
      place: `${file}:${lineAt(text, index)}`,
    })),
  );
}

function waits(known: Known, sources: readonly Source[]): string[] {
  return waitsIn(sources).flatMap(({ name, place }) => {
    const [event, ...others] = known.messages.filter((message) => message.name === name);
    if (!event?.known || event.kind !== "event" || event.signals || others.length > 0) return [];
    return [
      `${place} waits for "${event.type}", but no route signals waiting instances. ` +
        `Add signal() to its line in ${fileOf(known, event.queue)}: on(${name}, signal()),`,
    ];
  });
}
