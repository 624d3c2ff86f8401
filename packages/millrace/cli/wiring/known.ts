/** What the sources know once they are loaded: the catalog, what `src/worker.ts` exports, and every definition that a file exports. */
export interface Known {
  /** The consumers in the catalog. */
  consumers: KnownConsumer[];
  /** The names of the workflows in the catalog. */
  workflows: string[];
  /** What the Worker exports: the workflow that a class runs, or null for anything else. */
  classes: Record<string, string | null>;
  messages: KnownMessage[];
  definitions: KnownWorkflow[];
  /** The consumers that files export. */
  declared: DeclaredConsumer[];
}

/** As `ConsumerDefinition` of the engine. */
export interface KnownConsumer {
  /** The queue's own name. */
  queue: string;
  /** The name under which it is declared, where that stands for several queues. */
  declaredAs?: string | undefined;
  retries: { limit: number };
  batch: { size: number; waitSeconds: number };
  concurrency: number;
}

export interface DeclaredConsumer {
  /** Its file, and the name under which that exports it. */
  file: string;
  name: string;
  queue: string;
}

export interface KnownMessage {
  /** Its file, and the name under which that exports it. */
  file: string;
  name: string;
  kind: "command" | "event";
  type: string;
  /** The queue's own name. */
  queue: string;
  /** False for a command that no workflow performs, and for an event without a line in the routes. */
  known: boolean;
  /** True for an event that wakes those who wait for it. */
  signals: boolean;
}

export interface KnownWorkflow {
  file: string;
  name: string;
  workflow: string;
  /** The message it is declared `on`: its type, kind and queue. */
  on: string;
  kind: KnownMessage["kind"];
  queue: string;
}

/** What the process that loads the sources says. `thrown` is the class of an error whose text is the sources' own. */
export type Look = { known: Known } | { error: string; at: string | undefined; thrown?: string | undefined };

/** The innermost place of a stack that is in the sources: `file:line`. */
export function placeIn(stack: string, sources: string): string | undefined {
  const places = [...stack.matchAll(/\(?(?:file:\/\/)?(\/[^\s():]+:\d+)(?::\d+)?\)?$/gm)].map(([, place = ""]) => place);
  return places.find((place) => place.startsWith(`${sources}/`) && !/\/(?:node_modules|\.millrace)\//.test(place));
}
