import type { AskedApi } from "./api.ts";

/** An option of a verb. An option without `value` is a flag. */
export interface Option {
  readonly value?: string;
  /** The possible values of the option, if they are few and known. */
  readonly values?: readonly string[];
  readonly says: string;
}

export interface Verb {
  /** The placeholders of the verb's arguments, such as `LANE KEY`. */
  readonly takes?: string;
  /** One sentence for the help, without its full stop. */
  readonly does: string;
  /** A sentence about the verb's arguments, for the help. */
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

/** Verbs of one kind. A noun without verbs has its only command under the key NO_VERB. */
export type Noun = Readonly<Record<string, Verb>>;

export const NO_VERB = "";
