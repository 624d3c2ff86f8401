import type { AskedApi } from "./api.ts";

/** An option of a verb. Without `value` it is a flag. */
export interface Option {
  readonly value?: string;
  /** The possible values, if they are few and known. */
  readonly values?: readonly string[];
  readonly says: string;
}

export interface Verb {
  /** The placeholders of its arguments, such as `LANE KEY`. */
  readonly takes?: string;
  /** One sentence without its full stop, for the help. */
  readonly does: string;
  /** A sentence about its arguments. */
  readonly note?: string;
  readonly options?: Readonly<Record<string, Option>>;
  run(asked: Asked): Promise<number>;
}

export interface Asked {
  /** The values of the arguments `takes`. */
  readonly words: readonly string[];
  readonly api: AskedApi;
  readonly isJson: boolean;
  readonly stop: AbortSignal;
  text(option: string): string | undefined;
  isSet(option: string): boolean;
  /** The value of a flag: false for `--no-…`. */
  flag(option: string): boolean | undefined;
}

/** Verbs of one kind. A noun without verbs has its command under NO_VERB. */
export type Noun = Readonly<Record<string, Verb>>;

export const NO_VERB = "";
