import type { Config } from "./config.ts";
import type { Known, KnownQueue } from "./known.ts";
import type { Source } from "./sources.ts";

/** Something that was forgotten or mixed up, in a sentence that ends with what to do. */
export interface Mistake {
  readonly says: string;
  /** True when the runtime could not start with it, or would run one thing for another. */
  readonly stops: boolean;
}

/** Everything that the sources and `wrangler.jsonc` do not say of one another. `set` are the variables that are set beside the configuration. */
export function mistakesIn(config: Config, known: Known, sources: readonly Source[], set: readonly string[]): Mistake[] {
  return [
    ...classes(config, known).map((says) => ({ says, stops: true })),
    ...[
      ...workflows(config, known),
      ...queues(config, known),
      ...messages(known, sources),
      ...waits(known, sources),
      ...variables(config, sources, set),
    ].map((says) => ({ says, stops: false })),
  ];
}

/** What `wrangler.jsonc` names and the Worker does not export, or exports for something else. */
function classes({ name, workflows = [], durable_objects, services = [], main = "src/worker.ts" }: Config, known: Known): string[] {
  const ours = <Bound extends { script_name?: string }>(bound: readonly Bound[]) =>
    bound.filter(({ script_name }) => script_name === undefined || script_name === name);
  const isExported = (className: string) => Object.hasOwn(known.classes, className);
  const line = (workflow: string, className: string) => {
    const constant = known.definitions.find((one) => one.workflow === workflow)?.name ?? camel(workflow);
    return `export class ${className} extends entrypoint(workflows.${constant}) {}`;
  };
  return [
    ...ours(workflows).flatMap(({ name, class_name }) => {
      const runs = known.classes[class_name];
      if (!isExported(class_name)) return [`The class of "${name}" is not exported. Add this line to ${main}: ${line(name, class_name)}`];
      if (runs === name) return [];
      const what = runs ? `runs "${runs}"` : "runs no workflow";
      return [`${class_name} ${what}, but it is bound as "${name}" in wrangler.jsonc. In ${main}: ${line(name, class_name)}`];
    }),
    ...ours(durable_objects?.bindings ?? [])
      .filter(({ class_name }) => !isExported(class_name))
      .map(
        ({ name, class_name }) =>
          `wrangler.jsonc binds ${name} to the class ${class_name}, which is not exported. Add this to ${main}: export { ${class_name} } from "./…";`,
      ),
    ...services
      .filter(({ service, entrypoint }) => service === name && entrypoint !== undefined && !isExported(entrypoint))
      .map(
        ({ binding, entrypoint }) =>
          `wrangler.jsonc binds ${binding} to the entrypoint ${entrypoint}, which is not exported. Add this to ${main}: export { ${entrypoint} } from "./…";`,
      ),
  ];
}

function workflows({ workflows = [] }: Config, known: Known): string[] {
  const unbound = known.workflows.flatMap((name) => {
    const bound = workflows.find((one) => one.name === name);
    if (bound?.binding === upper(name)) return [];
    const line = json({ binding: upper(name), name, class_name: pascal(name) });
    if (!bound) return [`"${name}" is not bound. Add this line to "workflows" in wrangler.jsonc: ${line}`];
    return [`"${name}" is bound as ${bound.binding}, where nobody looks for it. In "workflows" of wrangler.jsonc: ${line}`];
  });
  const unlisted = known.definitions
    .filter(({ workflow }) => !known.workflows.includes(workflow))
    .map(
      ({ file, name, workflow }) =>
        `The catalog does not know "${workflow}" (${file}). Add this line to src/workflows/index.ts: export { ${name} } from "./${file.replace(/^src\/workflows\//, "")}";`,
    );
  return [...unlisted, ...unbound];
}

function queues({ queues: { producers = [], consumers = [] } = {} }: Config, known: Known): string[] {
  return known.queues.flatMap((queue) => {
    const { name } = queue;
    const letters = `${name}-dlq`;
    const consumer = consumers.find((one) => one.queue === name);
    const missing = [
      ...(producers.some((one) => one.queue === name && one.binding === upper(name))
        ? []
        : [`to "queues.producers": ${json({ binding: upper(name), queue: name })}`]),
      ...(consumer ? [] : [`to "queues.consumers": ${json(consumerOf(queue))}`]),
      ...(consumers.some((one) => one.queue === letters) ? [] : [`to "queues.consumers": ${json(lettersOf(letters))}`]),
    ];
    const says = `${lacks(name, missing)} Add in wrangler.jsonc ${missing.join(" and ")}`;
    const elsewhere = consumer && consumer.dead_letter_queue !== letters;
    return [
      ...(missing.length > 0 ? [says] : []),
      ...(elsewhere
        ? [`What fails on the queue "${name}" would be lost. Add to its consumer in wrangler.jsonc: "dead_letter_queue": "${letters}"`]
        : []),
    ];
  });
}

function lacks(name: string, missing: readonly string[]): string {
  if (missing.length > 1) return `The queue "${name}" is not set up.`;
  if (missing[0]?.startsWith('to "queues.producers"')) return `The queue "${name}" is not bound.`;
  const dead = missing[0]?.includes(`"${name}-dlq", "max`);
  return dead
    ? `Nobody keeps the dead letters of the queue "${name}".`
    : `Nobody consumes the queue "${name}": its messages would wait for ever.`;
}

const consumerOf = ({ name, batch, retries, concurrency }: KnownQueue) => ({
  queue: name,
  max_batch_size: batch.size,
  max_batch_timeout: batch.waitSeconds,
  max_retries: retries.limit,
  max_concurrency: concurrency,
  dead_letter_queue: `${name}-dlq`,
});

const lettersOf = (queue: string) => ({ queue, max_batch_size: 100, max_batch_timeout: 1, max_retries: 100, max_concurrency: 1 });

/** Messages that nobody would take. */
function messages(known: Known, sources: readonly Source[]): string[] {
  const taken = new Set(known.messages.filter((message) => message.known).map(({ type }) => type));
  const alone = known.messages.filter(({ type }, at, all) => !taken.has(type) && all.findIndex((one) => one.type === type) === at);
  return alone.map(({ kind, type, file, name }) =>
    kind === "event"
      ? `The event "${type}" (${file}) has no line in the routes: each would become a dead letter. Add to src/consumers/routes.ts: ${routeOf(known, sources, type, name)}`
      : `No workflow performs the command "${type}" (${file}): each would be refused. Write one with on: ${name}, and export it from src/workflows/index.ts.`,
  );
}

/** The line of an event, with who is known to want it. */
function routeOf(known: Known, sources: readonly Source[], type: string, name: string): string {
  const started = known.definitions.filter(({ on }) => on === type);
  const waiting = waitsIn(sources).filter((wait) => wait.name === name);
  const targets = [...started.map((one) => `start(${one.name})`), ...(waiting.length > 0 ? ["signal()"] : [])];
  if (targets.length === 0) return `on(${name}), which knows it and lets nothing follow from it.`;
  const why = [...started.map((one) => `"${one.workflow}" is declared on it`), ...waiting.map(({ place }) => `${place} waits for it`)];
  return `on(${name}, ${targets.join(", ")}), since ${why.join(" and ")}.`;
}

function waitsIn(sources: readonly Source[]): { name: string; place: string }[] {
  return sources.flatMap(({ file, text }) =>
    [...text.matchAll(/\.waitFor\(\s*"[^"]*",\s*(?:\w+\.)?(\w+)/g)].map(({ 1: name = "", index }) => ({
      name,
      place: `${file}:${lineAt(text, index)}`,
    })),
  );
}

/** Waits for events that no route passes on. */
function waits(known: Known, sources: readonly Source[]): string[] {
  return waitsIn(sources).flatMap(({ name, place }) => {
    const [event, ...others] = known.messages.filter((message) => message.name === name);
    if (!event?.known || event.kind !== "event" || event.signals || others.length > 0) return [];
    return [
      `${place} waits for "${event.type}", which no route passes on to those who wait. Add signal() to its line in src/consumers/routes.ts: on(${name}, signal()),`,
    ];
  });
}

/** Variables that are read, may not be missing, and are set nowhere. */
function variables(config: Config, sources: readonly Source[], set: readonly string[]): string[] {
  const optional = new Set(sources.flatMap(({ text }) => [...text.matchAll(/\b([A-Z][A-Z0-9_]+)\?\s*:/g)].map(([, name]) => name)));
  const bound = new Set([...set, ...bindingsIn(config), ...Object.keys(config.vars ?? {})]);
  const seen = new Set<string>();
  return sources.flatMap(({ file, text }) =>
    [...text.matchAll(/\benv\.([A-Z][A-Z0-9_]+)\b/g)].flatMap(({ 1: name = "", index }) => {
      if (bound.has(name) || optional.has(name) || seen.has(name)) return [];
      seen.add(name);
      return [
        `${file}:${lineAt(text, index)} reads env.${name}, which is set nowhere. Add ${name}=… to .dev.vars and ${name}= to .dev.vars.example, from which npm run types knows it, or bind it in wrangler.jsonc. What may be missing is declared as ${name}?: string; in an interface beside its reader, as in src/webhooks/settings.ts.`,
      ];
    }),
  );
}

/** Every name that a configuration binds, whatever to. */
function bindingsIn(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  const { binding, name } = value as Record<string, unknown>;
  const own = [binding, name].filter((one) => typeof one === "string" && /^[A-Z][A-Z0-9_]*$/.test(one)) as string[];
  return [...own, ...Object.values(value).flatMap(bindingsIn)];
}

const lineAt = (text: string, index: number) => text.slice(0, index).split("\n").length;
const json = (line: object) =>
  JSON.stringify(line)
    .replaceAll(/[:,](?=["\d])/g, "$& ")
    .replace(/^\{(.*)\}$/, "{ $1 }");
const upper = (name: string) => name.replaceAll("-", "_").toUpperCase();
const pascal = (name: string) => name.replaceAll(/(?:^|-)([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
const camel = (name: string) => pascal(name).replace(/^./, (letter) => letter.toLowerCase());
