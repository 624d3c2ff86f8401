import { DATABASE } from "../project.ts";
import type { Config, ConfiguredConsumer } from "./config.ts";
import { camel, isLane, type Known, type KnownConsumer, pascal, pathFrom, upper } from "./known.ts";
import { lineAt, type Source } from "./sources.ts";
import { unconsumed } from "./unconsumed.ts";

/** A mistake in the wiring of a Worker, as a text that ends with the fix. */
export interface Mistake {
  readonly says: string;
  /** True if the runtime does not start because of the mistake, or would run the wrong class. */
  readonly stops: boolean;
}

/**
 * Compares the sources with the configuration, and returns the mistakes. `set` contains the names of variables that are set outside the
 * configuration.
 */
export function mistakesIn(config: Config, known: Known, sources: readonly Source[], set: readonly string[]): Mistake[] {
  return [
    ...[...classes(config, known, sources), ...objects(config, known)].map((says) => ({ says, stops: true })),
    ...[
      ...workflows(config, known, sources),
      ...queues(config, known),
      ...lanes(config, known),
      ...unconsumed(known, sources),
      ...variables(config, sources, set),
    ].map((says) => ({ says, stops: false })),
  ];
}

/** Reports classes in the configuration that the Worker does not export, or that run a different workflow than the configuration says. */
function classes(config: Config, known: Known, sources: readonly Source[]): string[] {
  const { name, workflows = [], durable_objects, services = [], exports = {}, main = "src/worker.ts" } = config;
  const entry = sources.find(({ file }) => file === main)?.text ?? "";
  const catalog = /\bentrypoint\(\w+, (\w+)\)/.exec(entry)?.[1] ?? "app";
  const ours = <Bound extends { script_name?: string }>(bound: readonly Bound[]) =>
    bound.filter(({ script_name }) => script_name === undefined || script_name === name);
  const isExported = (className: string) => Object.hasOwn(known.classes, className);
  const exporting = (className: string) =>
    /\bmillrace\(/.test(entry) && OF_MILLRACE.includes(className)
      ? `export const { handler, ${[...new Set([...OF_MILLRACE.filter((one) => isExported(one) || one === className)])].join(", ")} } = millrace({ … });`
      : className === "Lanes"
        ? `export class Lanes extends engineLanes(${catalog}) {}`
        : `export { ${className} } from "./…";`;
  const line = (workflow: string, className: string) => {
    const { name, file } = known.definitions.find((one) => one.workflow === workflow) ?? { name: camel(workflow), file: undefined };
    const importing = file && !new RegExp(`\\b${name}\\b`).test(entry) ? `import { ${name} } from "${pathFrom(main, file)}"; ` : "";
    return `${importing}export class ${className} extends entrypoint(${name}, ${catalog}) {}`;
  };
  return [
    ...ours(workflows).flatMap(({ binding, name, class_name }) => {
      const runs = known.classes[class_name];
      if (class_name === RUNS && isExported(RUNS)) return [];
      const ofEngine = [...known.workflows, ...known.definitions.map(({ workflow }) => workflow)];
      const isStarted = ofEngine.some((one) => upper(one) === binding);
      if (!isExported(class_name)) {
        const add = isStarted || ofEngine.includes(name) ? line(name, class_name) : exporting(class_name);
        return [`The class of "${name}" is not exported. Add this line to ${main}: ${add}`];
      }
      // The engine finds a workflow by its binding. A class that runs no workflow of the engine is a Workflow of the app.
      if (runs ? runs === name || upper(runs) === binding : !isStarted) return [];
      const what = runs ? `runs "${runs}"` : "runs no workflow";
      return [`${class_name} ${what}, but it is bound as "${name}" in wrangler.jsonc. In ${main}: ${line(name, class_name)}`];
    }),
    ...ours(durable_objects?.bindings ?? [])
      .filter(({ class_name }) => !isExported(class_name))
      .map(
        ({ name, class_name }) =>
          `wrangler.jsonc binds ${name} to the class ${class_name}, which is not exported. Add this to ${main}: ` +
          (name === "LANES" ? `export class ${class_name} extends engineLanes(${catalog}) {}` : exporting(class_name)),
      ),
    ...Object.entries(exports).flatMap(([className, { type }]) =>
      isExported(className)
        ? []
        : [
            `"exports" in wrangler.jsonc has the ${nounOf(type)} ${className}, which is not exported. Add this to ${main}: ${exporting(className)}`,
          ],
    ),
    ...services
      .filter(({ service, entrypoint }) => service === name && entrypoint !== undefined && !isExported(entrypoint))
      .map(
        ({ binding, entrypoint }) =>
          `wrangler.jsonc binds ${binding} to the entrypoint ${entrypoint}, which is not exported. Add this to ${main}: export { ${entrypoint} } from "./…";`,
      ),
  ];
}

const KEY = "MILLRACE_KEY";

const RUNS = "Runs";
const OBJECTS = ["Recorder", "Keeper"];
/** The classes that `millrace({ … })` returns. */
const OF_MILLRACE = [RUNS, ...OBJECTS, "RateLimit", "Lock", "Counter"];

const nounOf = (type: string) => (type === "workflow" ? "Workflow" : "Durable Object");

function workflows({ name: worker = "worker", workflows = [], exports = {} }: Config, known: Known, sources: readonly Source[]): string[] {
  const isDeclared = (className: string) => exports[className]?.type === "workflow";
  const runsAll = isDeclared(RUNS) || workflows.some(({ class_name }) => class_name === RUNS);
  const own = known.workflows.filter((name) => !known.elsewhere?.includes(name));
  const lacking = own.flatMap((name) => {
    const bound = workflows.find((one) => one.binding === upper(name) || (one.name === name && known.classes[one.class_name] !== null));
    if (bound?.binding === upper(name) || isDeclared(pascal(name)) || (runsAll && !bound)) return [];
    const line = json({ binding: upper(name), name, class_name: pascal(name) });
    if (!bound) return [{ name, says: `"${name}" is not bound. Add this line to "workflows" in wrangler.jsonc: ${line}` }];
    return [
      {
        name,
        says: `"${name}" is bound as ${bound.binding}, but the engine looks for ${upper(name)}. In "workflows" of wrangler.jsonc: ${line}`,
      },
    ];
  });
  if (lacking.length === 0 || workflows.length > 0 || !sources.some(({ text }) => /\bmillrace\(/.test(text)))
    return lacking.map(({ says }) => says);
  const names = lacking.map(({ name }) => `"${name}"`).join(", ");
  return [
    `No Workflow class runs ${names}. Add this line to "exports" in wrangler.jsonc: "${RUNS}": ${json({ type: "workflow", name: `${worker}-runs` })}`,
  ];
}

/** The engine's Durable Objects that neither `exports` nor a binding declares. */
function objects({ exports = {}, durable_objects, migrations }: Config, known: Known): string[] {
  if (known.consumers.length === 0) return [];
  return OBJECTS.filter(
    (className) => !exports[className] && !durable_objects?.bindings?.some(({ name }) => name === className.toUpperCase()),
  ).map((className) => {
    const line =
      migrations === undefined
        ? `"exports" in wrangler.jsonc: "${className}": ${json({ type: "durable-object", storage: "sqlite" })}`
        : `"durable_objects.bindings" in wrangler.jsonc: ${json({ name: className.toUpperCase(), class_name: className })}, ` +
          `and to "migrations", with a new tag: "new_sqlite_classes": ["${className}"]`;
    return `The Durable Object ${className} of the engine is not declared. Add this line to ${line}`;
  });
}

/** The name of the default queue, which has a special binding. */
const DEFAULT_QUEUE = "millrace";
const bindingOf = (queue: string) => (queue === DEFAULT_QUEUE ? "MILLRACE_QUEUE" : upper(queue));

function queues({ vars, queues: { producers = [], consumers = [] } = {} }: Config, known: Known): string[] {
  const ofPlatform = known.consumers.filter(({ queue }) => !isLane(queue));
  const prefix = typeof vars?.QUEUE_PREFIX === "string" ? vars.QUEUE_PREFIX : "";
  if (prefix !== "" && consumers.length > 0 && !consumers.some(({ queue }) => queue.startsWith(prefix))) {
    const [first = ""] = ofPlatform.map(({ queue }) => `${prefix}${queue}`);
    return [
      `QUEUE_PREFIX is "${prefix}", but no queue in wrangler.jsonc begins with it. ` +
        `Begin the names of all queues with it${first && `, such as "queue": "${first}"`}, or remove QUEUE_PREFIX from "vars".`,
    ];
  }
  return ofPlatform.flatMap((declared) => {
    const name = `${prefix}${declared.queue}`;
    if (declared.isElsewhere) return consumers.some(({ queue }) => queue === name) ? [takenTwice(name)] : [];
    const letters = `${name}-dlq`;
    const consumer = consumers.find((one) => one.queue === name);
    const producer = { binding: bindingOf(declared.queue), queue: name };
    const missing = [
      ...(producers.some(({ queue, binding }) => queue === name && binding === producer.binding)
        ? []
        : [`to "queues.producers": ${json(producer)}`]),
      ...(consumer ? [] : [`to "queues.consumers": ${json(consumerOf(declared, name))}`]),
      ...(consumers.some((one) => one.queue === letters) ? [] : [`to "queues.consumers": ${json(lettersOf(letters))}`]),
    ];
    const says = `${lacks(name, missing)} Add in wrangler.jsonc ${missing.join(" and ")}`;
    const elsewhere = consumer && consumer.dead_letter_queue !== letters;
    return [
      ...(missing.length > 0 ? [says] : []),
      ...(elsewhere ? [lostLetters(name, declared.retries.limit, letters)] : []),
      ...(consumer ? otherNumbers(consumer, declared, known) : []),
    ];
  });
}

const takenTwice = (queue: string) =>
  `The catalog says that another Worker consumes "${queue}", but wrangler.jsonc has a consumer of it too: remove one of the two. A queue has one consumer.`;

const lostLetters = (queue: string, retries: number | undefined, letters: string) =>
  `The queue "${queue}" has no dead-letter queue: the platform deletes a message after ${retries ?? "its"} failed retries, and nothing reports it. ` +
  `Add to its consumer in wrangler.jsonc: "dead_letter_queue": "${letters}"`;

/** Reports queues with lanes if the configuration lacks the Durable Object `Lanes`. Lanes do not use a platform queue. */
function lanes({ durable_objects, exports = {}, migrations }: Config, known: Known): string[] {
  const [lane] = known.consumers.filter(({ queue, isElsewhere }) => isLane(queue) && !isElsewhere);
  if (!lane || exports.Lanes) return [];
  if (migrations === undefined && !durable_objects?.bindings?.some(({ name }) => name === "LANES"))
    return [
      `The messages of "${lane.queue}" have no object to wait in. ` +
        `Add this line to "exports" in wrangler.jsonc: "Lanes": ${json({ type: "durable-object", storage: "sqlite" })}`,
    ];
  const bound = durable_objects?.bindings?.find(({ name }) => name === "LANES");
  const missing = [
    ...(bound ? [] : [`to "durable_objects.bindings": ${json({ name: "LANES", class_name: "Lanes" })}`]),
    ...(migrations?.some(({ new_sqlite_classes = [] }) => new_sqlite_classes.includes(bound?.class_name ?? "Lanes"))
      ? []
      : [`to "migrations", with a new tag: "new_sqlite_classes": ["${bound?.class_name ?? "Lanes"}"]`]),
  ];
  if (missing.length === 0) return [];
  return [`The messages of "${lane.queue}" have no object to wait in. Add in wrangler.jsonc ${missing.join(" and ")}`];
}

/** The numeric settings of a queue consumer that differ between the sources and the configuration. */
function otherNumbers(configured: ConfiguredConsumer, declared: KnownConsumer, known: Known): string[] {
  const { queue, dead_letter_queue, ...numbers } = consumerOf(declared, configured.queue);
  const { declaredAs = declared.queue } = declared;
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
    ? `No consumer stores the dead letters of the queue "${name}": the platform deletes them after 4 days.`
    : `No consumer receives the messages of the queue "${name}".`;
}

const consumerOf = ({ batch, retries, concurrency }: KnownConsumer, queue: string) => ({
  queue,
  max_batch_size: batch.size,
  max_batch_timeout: batch.waitSeconds,
  max_retries: retries.limit,
  max_concurrency: concurrency,
  dead_letter_queue: `${queue}-dlq`,
});

const lettersOf = (queue: string) => ({ queue, max_batch_size: 100, max_batch_timeout: 1, max_retries: 100, max_concurrency: 1 });

/** Reports variables in the secrets file that are not in `secrets.required`: wrangler does not load such variables. */
export function unloaded({ secrets, vars = {} }: Config, names: readonly string[], file: string): Mistake[] {
  if (secrets === undefined) return [];
  return names
    .filter((name) => vars[name] === undefined && !secrets.required?.includes(name))
    .map((name) => {
      const says = `${file} has ${name}, which "secrets.required" in wrangler.jsonc does not list: wrangler does not load it. Add it there: "${name}"`;
      return { says, stops: name === KEY };
    });
}

/** Reports required bindings that the configuration lacks. `set` has the same meaning as in `mistakesIn`. */
export function unbound({ name = "worker", d1_databases = [], r2_buckets = [], vars = {} }: Config, set: readonly string[]): Mistake[] {
  const lacks = (list: string, what: string, binding: string, line: object) =>
    `wrangler.jsonc binds no ${what} as ${binding}. Add to "${list}": ${json({ binding, ...line })}`;
  return [
    ...(d1_databases.some(({ binding }) => binding === DATABASE)
      ? []
      : [lacks("d1_databases", "D1 database", DATABASE, { database_name: d1_databases[0]?.database_name ?? name })]),
    ...(r2_buckets.some(({ binding }) => binding === "PAYLOADS")
      ? []
      : [lacks("r2_buckets", "R2 bucket", "PAYLOADS", { bucket_name: `${name}-payloads` })]),
    ...(vars[KEY] !== undefined || set.includes(KEY) ? [] : [`.dev.vars sets no ${KEY}. Add ${KEY}= with the value that it had.`]),
  ].map((says) => ({ says, stops: true }));
}

/** Reports required variables that the sources read and that are not set. */
function variables(config: Config, sources: readonly Source[], set: readonly string[]): string[] {
  const optional = new Set(sources.flatMap(({ text }) => [...text.matchAll(/\b([A-Z][A-Z0-9_]+)\?\s*:/g)].map(([, name]) => name)));
  // `unbound` reports these two bindings.
  const bound = new Set([...set, ...bindingsIn(config), ...Object.keys(config.vars ?? {}), DATABASE, "PAYLOADS"]);
  const seen = new Set<string>();
  return sources.flatMap(({ file, text }) =>
    [...text.matchAll(/\benv\.([A-Z][A-Z0-9_]+)\b/g)].flatMap(({ 1: name = "", index }) => {
      if (bound.has(name) || optional.has(name) || seen.has(name)) return [];
      seen.add(name);
      const required = config.secrets === undefined ? "" : ` and "${name}" to "secrets.required" in wrangler.jsonc`;
      return [
        `${file}:${lineAt(text, index)} reads env.${name}, which is set nowhere. Add ${name}=… to .dev.vars${required}, or bind it in wrangler.jsonc. Declare an optional variable as ${name}?: string; in an interface.`,
      ];
    }),
  );
}

function bindingsIn(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  const { binding, name } = value as Record<string, unknown>;
  const own = [binding, name].filter((one) => typeof one === "string" && /^[A-Z][A-Z0-9_]*$/.test(one)) as string[];
  return [...own, ...Object.values(value).flatMap(bindingsIn)];
}

export const json = (line: object) =>
  JSON.stringify(line)
    .replaceAll(/[:,](?=["\d])/g, "$& ")
    .replace(/^\{(.*)\}$/, "{ $1 }");
