import { OPERATIONS } from "../names.js";
import { NO_VERB, type Noun } from "./arguments.ts";
import { tail } from "./follow.ts";
import { verbOf } from "./generic.ts";
import type { Operation } from "./operations.ts";

export function nounsOf(operations: readonly Operation[]): Record<string, Noun> {
  const nouns: Record<string, Noun> = {};
  for (const operation of operations) {
    const [noun = "", verb = NO_VERB] = operation.command.split(" ");
    nouns[noun] = { ...nouns[noun], [verb]: verbOf(operation) };
  }
  return nouns;
}

const engine = nounsOf(OPERATIONS);

export const NOUNS: Readonly<Record<string, Noun>> = { ...engine, instances: { ...engine.instances, tail } };
