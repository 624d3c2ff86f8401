// A separate process that loads the sources and returns their definitions, so that side effects of the sources stay in that process.
import { once } from "node:events";
import { pathToFileURL } from "node:url";
import {
  type DeclaredConsumer,
  type Known,
  type KnownConsumer,
  type KnownMessage,
  type KnownWorkflow,
  type Look,
  placeIn,
  standIn,
} from "./known.ts";
// zod is loaded in advance, because most sources import it.
import "zod";

standIn();

type Exports = Record<string, unknown>;

interface Message {
  kind: "command" | "event";
  type: string;
  queue: { name: string };
}

type Consumer = Omit<KnownConsumer, "queue" | "declaredAs"> & {
  queue: { name: string; parts?: { shared: string[] } };
  starts?: { name: string }[];
  routes?: { targets: { workflow?: { name: string } }[] }[];
};

/** The fields of a catalog that the wiring check reads. */
interface App {
  workflows: { name: string }[];
  consumers: Consumer[];
  performer(type: string): unknown;
  subscribers(type: string): { targets: { do: string }[] };
}

interface Loaded {
  worker: Exports;
  modules: [file: string, exports: Exports][];
}

const [sources = ""] = process.argv.slice(2);
const [bundle] = await once(process, "message");
const exit = process.exit.bind(process);
process.exit = (code) => {
  throw new Error(`process.exit(${code ?? ""}) is called as they are loaded.`);
};
const said: Look = await import(pathToFileURL(bundle).href).then((loaded: Loaded) => ({ known: knownOf(loaded) }), refusalOf);
// Ends the process explicitly, because the sources may have open timers and sockets.
process.send?.(said, () => exit());

/** The catalog that the Worker's classes refer to. Empty for a Worker without the engine. */
function catalogIn(worker: Exports): App {
  const classes = Object.values(worker).filter((value) => typeof value === "function" && "catalog" in value) as { catalog?: App }[];
  const found = classes.find(({ catalog }) => catalog !== undefined)?.catalog;
  return found ?? { workflows: [], consumers: [], performer: unknown, subscribers: unknown };
}

function unknown(): never {
  throw new Error("This Worker has no catalog.");
}

function knownOf({ worker, modules }: Loaded): Known {
  const app = catalogIn(worker);
  const exported = modules.flatMap(([file, names]) => Object.entries(names).map(([name, value]) => ({ file, name, value })));
  return {
    consumers: app.consumers.map(({ queue: { name: queue, parts }, retries, batch, concurrency, isElsewhere }) => {
      return { queue, declaredAs: parts?.shared[0], retries, batch, concurrency, isElsewhere };
    }),
    workflows: app.workflows.map(({ name }) => name),
    elsewhere: app.consumers.filter(({ isElsewhere }) => isElsewhere).flatMap(startedIn),
    classes: Object.fromEntries(Object.entries(worker).map(([name, value]) => [name, workflowRunBy(value)])),
    messages: exported.flatMap(({ file, name, value }): KnownMessage[] =>
      isMessage(value) ? [{ file, name, kind: value.kind, type: value.type, queue: value.queue.name, ...fateOf(app, value) }] : [],
    ),
    definitions: exported.flatMap(({ file, name, value }): KnownWorkflow[] =>
      isWorkflow(value) ? [{ file, name, workflow: value.name, on: value.on.type, kind: value.on.kind, queue: value.on.queue.name }] : [],
    ),
    declared: exported.flatMap(({ file, name, value }): DeclaredConsumer[] =>
      isConsumer(value) ? [{ file, name, queue: value.queue.name }] : [],
    ),
  };
}

function startedIn({ starts = [], routes = [] }: Consumer): string[] {
  const followers = routes.flatMap(({ targets }) => targets.flatMap(({ workflow }) => workflow ?? []));
  return [...starts, ...followers].map(({ name }) => name);
}

function fateOf(app: App, { kind, type }: Message): { known: boolean; signals: boolean } {
  try {
    if (kind === "event") return { known: true, signals: app.subscribers(type).targets.some((target) => target.do === "signal") };
    app.performer(type);
    return { known: true, signals: false };
  } catch {
    return { known: false, signals: false };
  }
}

function workflowRunBy(value: unknown): string | null {
  const workflow = typeof value === "function" && "workflow" in value ? value.workflow : undefined;
  return typeof workflow === "string" ? workflow : null;
}

function isMessage(value: unknown): value is Message {
  const { kind, type, payload, queue } = (value ?? {}) as Exports;
  return (kind === "command" || kind === "event") && typeof type === "string" && payload !== undefined && queue !== undefined;
}

function isWorkflow(value: unknown): value is { name: string; on: Message } {
  const { name, on, run } = (value ?? {}) as Exports;
  return typeof name === "string" && typeof run === "function" && isMessage(on);
}

function isConsumer(value: unknown): value is Consumer {
  const { queue, retries, concurrency } = (value ?? {}) as Exports;
  return queue !== undefined && retries !== undefined && concurrency !== undefined;
}

function refusalOf(error: unknown): Look {
  const { message = String(error), stack = "", name = "value" } = error instanceof Error ? error : {};
  // Error messages of the engine can be shown, because these messages contain no values of the environment.
  return {
    error: message,
    at: placeIn(stack, sources),
    thrown: name === "MillraceError" ? undefined : /^\w{1,60}$/.test(name) ? name : "value",
  };
}
