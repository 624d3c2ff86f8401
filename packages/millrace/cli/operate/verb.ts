import type { AskedApi } from "./api.ts";

/** An option of a verb: what stands behind it, nothing for one that stands by itself; and what it is for. */
export interface Option {
  readonly value?: string;
  readonly says: string;
}

/** One thing that a person can ask for. */
export interface Verb<Named extends string = string> {
  /** What stands behind its name, such as `ID`. */
  readonly takes?: string;
  /** What it does, in a sentence without its full stop. */
  readonly does: string;
  readonly options?: Readonly<Record<Named, Option>>;
  run(asked: Asked<Named>): Promise<number>;
}

/** What a verb is asked for. */
export interface Asked<Named extends string = string> {
  /** What stands where its `takes` does. */
  readonly about: string;
  readonly api: AskedApi;
  /** Whether the answer is wanted as the API gives it. */
  readonly isJson: boolean;
  readonly stop: AbortSignal;
  text(option: Named): string | undefined;
  isSet(option: Named): boolean;
}

/** A verb whose options are known to it by their names. */
export function verb<Named extends string = never>(definition: Verb<Named>): Verb {
  return definition;
}

/** Things of one kind, and what can be asked for about them. One that is all verb has it under the empty name. */
export interface Noun {
  readonly does: string;
  readonly verbs: Readonly<Record<string, Verb>>;
}

export const NO_VERB = "";
