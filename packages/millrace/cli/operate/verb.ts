import type { AskedApi } from "./api.ts";

/** An option of a verb. Without `value` it is a flag. */
export interface Option {
  readonly value?: string;
  readonly says: string;
}

export interface Verb<Named extends string = string> {
  /** The placeholder of its argument, such as `ID`. */
  readonly takes?: string;
  /** One sentence without its full stop, for the help. */
  readonly does: string;
  readonly options?: Readonly<Record<Named, Option>>;
  run(asked: Asked<Named>): Promise<number>;
}

export interface Asked<Named extends string = string> {
  /** The value of the argument `takes`. */
  readonly about: string;
  readonly api: AskedApi;
  readonly isJson: boolean;
  readonly stop: AbortSignal;
  text(option: Named): string | undefined;
  isSet(option: Named): boolean;
}

export function verb<Named extends string = never>(definition: Verb<Named>): Verb {
  return definition;
}

/** Verbs of one kind. A noun without verbs has its command under NO_VERB. */
export interface Noun {
  readonly does: string;
  readonly verbs: Readonly<Record<string, Verb>>;
}

export const NO_VERB = "";
