import type { AskedApi } from "./api.ts";

/** An option of a verb. An option without `value` is a flag. */
export interface Option {
  readonly value?: string;
  /** The possible values of the option, if the list of possible values is short and fixed. */
  readonly values?: readonly string[];
  readonly says: string;
}

export interface Verb {
  /** The placeholders of the verb's arguments, such as `LANE KEY`. */
  readonly takes?: string;
  /** A sentence that describes the verb in the help, without the full stop. */
  readonly does: string;
  /** A sentence that describes the verb's arguments in the help. */
  readonly note?: string;
  readonly options?: Readonly<Record<string, Option>>;
  run(asked: Asked): Promise<number>;
}

export interface Asked {
  /** The typed arguments, in the order of `takes`. */
  readonly words: readonly string[];
  readonly api: AskedApi;
  readonly isJson: boolean;
  readonly stop: AbortSignal;
  text(option: string): string | undefined;
  isSet(option: string): boolean;
  /** The value of a flag: false for `--no-…`. */
  flag(option: string): boolean | undefined;
}

/** The verbs of a noun, by name. If a noun has only one command and no verbs, its command has the key NO_VERB. */
export type Noun = Readonly<Record<string, Verb>>;

export const NO_VERB = "";
