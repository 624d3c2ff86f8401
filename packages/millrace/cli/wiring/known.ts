import { registerHooks } from "node:module";
import { posix } from "node:path";

/** The definitions that the sources contain: the catalog, the exports of the Worker, and all other exported definitions. */
export interface Known {
  consumers: KnownConsumer[];
  workflows: string[];
  /** The workflows that another Worker runs. */
  elsewhere?: string[];
  /** The workflow that each exported class runs, by class name. Null for an export that runs no workflow. */
  classes: Record<string, string | null>;
  messages: KnownMessage[];
  definitions: KnownWorkflow[];
  declared: DeclaredConsumer[];
}

/** The fields of the engine's `ConsumerDefinition` that the wiring reads. */
export interface KnownConsumer {
  queue: string;
  /** The queue name in the definition, if one definition declares several queues. */
  declaredAs?: string | undefined;
  retries: { limit: number };
  batch: { size: number; waitSeconds: number };
  concurrency: number;
  /** True when another Worker consumes the queue. */
  isElsewhere?: boolean | undefined;
}

export interface DeclaredConsumer {
  file: string;
  name: string;
  queue: string;
}

export interface KnownMessage {
  file: string;
  name: string;
  kind: "command" | "event";
  type: string;
  queue: string;
  /** True if a workflow or a route receives the message. False for a command without a workflow, and for an event without a route. */
  known: boolean;
  /** True for an event that wakes waiting instances. */
  signals: boolean;
}

export interface KnownWorkflow {
  file: string;
  name: string;
  workflow: string;
  on: string;
  kind: KnownMessage["kind"];
  queue: string;
}

/** The result of loading the sources. `thrown` is the class name of an error that the sources threw. */
export type Look = { known: Known } | { error: string; at: string | undefined; thrown?: string | undefined };

/** The position in the sources from the innermost stack frame that is in the sources, as `file:line`. */
export function placeIn(stack: string, sources: string): string | undefined {
  const places = [...stack.matchAll(/\(?(?:file:\/\/)?(\/[^\s():]+:\d+)(?::\d+)?\)?$/gm)].map(([, place = ""]) => place);
  return places.find((place) => place.startsWith(`${sources}/`) && !/\/(?:node_modules|\.millrace)\//.test(place));
}

/** The name of the binding for a workflow or queue, such as `PLACE_ORDER` for `place-order`. */
export const upper = (name: string) => name.replaceAll("-", "_").toUpperCase();

export const pascal = (name: string) => name.replaceAll(/(?:^|-)([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

export const camel = (name: string) => pascal(name).replace(/^./, (letter) => letter.toLowerCase());

export function pathFrom(importer: string, file: string): string {
  const path = posix.relative(posix.dirname(importer), file);
  return path.startsWith(".") ? path : `./${path}`;
}

export const isLane = (queue: string) => queue.startsWith("lane:");

export const ownName = (queue: string) => queue.replace(/^lane:/, "");

/** Substitutes for the platform's modules, which are sufficient to load the sources. */
const PLATFORM = `class Base {}
  export { Base as DurableObject, Base as RpcTarget, Base as WorkerEntrypoint, Base as WorkflowEntrypoint };
  export class NonRetryableError extends Error {}
  export const env = {}, exports = {}, waitUntil = () => undefined;`;

/** Replaces the platform's modules in this process. */
export function standIn(): void {
  registerHooks({
    resolve: (name, context, next) =>
      name.startsWith("cloudflare:")
        ? { url: `data:text/javascript,${encodeURIComponent(PLATFORM)}`, format: "module", shortCircuit: true }
        : next(name, context),
  });
}
