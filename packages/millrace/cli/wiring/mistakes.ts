import type { Config, ConfiguredConsumer } from "./config.ts";
import type { Known, KnownConsumer } from "./known.ts";
import { camel, isLane, pascal, pathFrom, upper } from "./names.ts";
import { lineAt, type Source } from "./sources.ts";
import { unconsumed } from "./unconsumed.ts";

/** Something that was forgotten or mixed up, in a sentence that ends with what to do. */
export interface Mistake {
  readonly says: string;
  /** True when the runtime could not start with it, or would run one thing for another. */
  readonly stops: boolean;
}

/**
 * Everything that the sources and `wrangler.jsonc` do not say of one another. `set` are the variables that are set beside the
 * configuration.
 */
export function mistakesIn(config: Config, known: Known, sources: readonly Source[], set: readonly string[]): Mistake[] {
  return [
    ...classes(config, known, sources).map((says) => ({ says, stops: true })),
    ...[
      ...workflows(config, known),
      ...queues(config, known),
      ...lanes(config, known),
      ...unconsumed(known, sources),
      ...variables(config, sources, set),
    ].map((says) => ({ says, stops: false })),
  ];
}

/** What `wrangler.jsonc` names and the Worker does not export, or exports for something else. */
function classes(config: Config, known: Known, sources: readonly Source[]): string[] {
  const { name, workflows = [], durable_objects, services = [], main = "src/worker.ts" } = config;
  const entry = sources.find(({ file }) => file === main)?.text ?? "";
  const catalog = /\bentrypoint\(\w+, (\w+)\)/.exec(entry)?.[1] ?? "app";
  const ours = <Bound extends { script_name?: string }>(bound: readonly Bound[]) =>
    bound.filter(({ script_name }) => script_name === undefined || script_name === name);
  const isExported = (className: string) => Object.hasOwn(known.classes, className);
  const line = (workflow: string, className: string) => {
    const { name, file } = known.definitions.find((one) => one.workflow === workflow) ?? { name: camel(workflow), file: undefined };
    const importing = file && !new RegExp(`\\b${name}\\b`).test(entry) ? `import { ${name} } from "${pathFrom(main, file)}"; ` : "";
    return `${importing}export class ${className} extends entrypoint(${name}, ${catalog}) {}`;
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
          `wrangler.jsonc binds ${name} to the class ${class_name}, which is not exported. Add this to ${main}: ` +
          (name === "LANES" ? `export class ${class_name} extends engineLanes(${catalog}) {}` : `export { ${class_name} } from "./…";`),
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
  return known.workflows.flatMap((name) => {
    const bound = workflows.find((one) => one.name === name);
    if (bound?.binding === upper(name)) return [];
    const line = json({ binding: upper(name), name, class_name: pascal(name) });
    if (!bound) return [`"${name}" is not bound. Add this line to "workflows" in wrangler.jsonc: ${line}`];
    return [`"${name}" is bound as ${bound.binding}, where nobody looks for it. In "workflows" of wrangler.jsonc: ${line}`];
  });
}

function queues({ queues: { producers = [], consumers = [] } = {} }: Config, known: Known): string[] {
  const ofPlatform = known.consumers.filter(({ queue }) => !isLane(queue));
  return ofPlatform.flatMap((declared) => {
    const name = declared.queue;
    const letters = `${name}-dlq`;
    const consumer = consumers.find((one) => one.queue === name);
    const missing = [
      ...(producers.some((one) => one.queue === name && one.binding === upper(name))
        ? []
        : [`to "queues.producers": ${json({ binding: upper(name), queue: name })}`]),
      ...(consumer ? [] : [`to "queues.consumers": ${json(consumerOf(declared))}`]),
      ...(consumers.some((one) => one.queue === letters) ? [] : [`to "queues.consumers": ${json(lettersOf(letters))}`]),
    ];
    const says = `${lacks(name, missing)} Add in wrangler.jsonc ${missing.join(" and ")}`;
    const elsewhere = consumer && consumer.dead_letter_queue !== letters;
    return [
      ...(missing.length > 0 ? [says] : []),
      ...(elsewhere
        ? [`What fails on the queue "${name}" would be lost. Add to its consumer in wrangler.jsonc: "dead_letter_queue": "${letters}"`]
        : []),
      ...(consumer ? otherNumbers(consumer, declared, known) : []),
    ];
  });
}

/** Lanes need no queue, but the one object that they all wait in. */
function lanes({ durable_objects, migrations = [] }: Config, known: Known): string[] {
  const [lane] = known.consumers.filter(({ queue }) => isLane(queue));
  if (!lane) return [];
  const bound = durable_objects?.bindings?.find(({ name }) => name === "LANES");
  const missing = [
    ...(bound ? [] : [`to "durable_objects.bindings": ${json({ name: "LANES", class_name: "Lanes" })}`]),
    ...(migrations.some(({ new_sqlite_classes = [] }) => new_sqlite_classes.includes(bound?.class_name ?? "Lanes"))
      ? []
      : [`to "migrations", with a tag of its own: "new_sqlite_classes": ["${bound?.class_name ?? "Lanes"}"]`]),
  ];
  if (missing.length === 0) return [];
  return [`The messages of "${lane.queue}" have no object to wait in. Add in wrangler.jsonc ${missing.join(" and ")}`];
}

/** Where the platform would take messages otherwise than their consumer says. */
function otherNumbers(configured: ConfiguredConsumer, declared: KnownConsumer, known: Known): string[] {
  const { queue, dead_letter_queue, ...numbers } = consumerOf(declared);
  const { declaredAs = queue } = declared;
  const others = Object.entries(numbers).filter(([field, number]) => configured[field as keyof typeof numbers] !== number);
  if (others.length === 0) return [];
  const file = known.declared.find((one) => one.queue === declaredAs)?.file ?? "its consumer";
  const is = others.map(([field]) => `${field} is ${configured[field as keyof typeof numbers] ?? "left to the platform"}`);
  const put = others.map(([field, number]) => `"${field}": ${number}`);
  return [
    `The queue "${queue}" is not consumed as ${file} says: ${is.join(", ")}. Put into its consumer in wrangler.jsonc ${put.join(", ")}`,
  ];
}

function lacks(name: string, missing: readonly string[]): string {
  if (missing.length > 1) return `The queue "${name}" is not set up.`;
  if (missing[0]?.startsWith('to "queues.producers"')) return `The queue "${name}" is not bound.`;
  const dead = missing[0]?.includes(`"${name}-dlq", "max`);
  return dead
    ? `Nobody keeps the dead letters of the queue "${name}".`
    : `Nobody consumes the queue "${name}": its messages would wait for ever.`;
}

const consumerOf = ({ queue, batch, retries, concurrency }: KnownConsumer) => ({
  queue,
  max_batch_size: batch.size,
  max_batch_timeout: batch.waitSeconds,
  max_retries: retries.limit,
  max_concurrency: concurrency,
  dead_letter_queue: `${queue}-dlq`,
});

const lettersOf = (queue: string) => ({ queue, max_batch_size: 100, max_batch_timeout: 1, max_retries: 100, max_concurrency: 1 });

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
        `${file}:${lineAt(text, index)} reads env.${name}, which is set nowhere. Add ${name}=… to .dev.vars and ${name}= to .dev.vars.example, from which npm run types knows it, or bind it in wrangler.jsonc. What may be missing is declared as ${name}?: string; in an interface beside its reader, as in src/systems/webhooks/settings.ts.`,
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

const json = (line: object) =>
  JSON.stringify(line)
    .replaceAll(/[:,](?=["\d])/g, "$& ")
    .replace(/^\{(.*)\}$/, "{ $1 }");
