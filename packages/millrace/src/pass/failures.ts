import { beforeWords, messageBeside } from "../contract/error-words.ts";
import { beginning } from "../contract/text.ts";
import { describeFailure, type Failure } from "./failure.ts";

/** A failed attempt; `last` when the platform will not try its step again. */
interface Failed {
  readonly error: unknown;
  readonly last: boolean;
  readonly failure: Failure;
}

/** What failed in one pass, and whose the errors are that the workflow's code hears. */
export class Failures {
  readonly #attempts = new Map<string, Failed>();
  readonly #heard = new Map<unknown, string>();
  readonly #unclear = new Set<string>();
  #trouble = false;

  /** An attempt at a step threw; `last` when the platform will not try it again. */
  note(label: string, attempt: number, error: unknown, last: boolean): void {
    this.#attempts.set(label, { error, last, failure: describeFailure(label, attempt, error) });
  }

  /** Of an attempt at a step nobody knows what it did: a later one's refusal says nothing of that. */
  noteUnclear(label: string): void {
    this.#unclear.add(label);
  }

  /** True where a step has had such an attempt in this pass. */
  isUnclear(label: string): boolean {
    return this.#unclear.has(label);
  }

  /** A step fails with this error without the platform. */
  noteEnd(label: string, error: unknown): void {
    this.note(label, 1, error, true);
    this.#heard.set(error, label);
  }

  /** The platform, or an undo on its way through the code, gave a step up with this error. */
  noteRejected(label: string, error: unknown): void {
    this.#trouble = true;
    this.#heard.set(error, label);
  }

  /** True when the platform, or an undo on its way through the code, gave a step up in this pass. */
  get hasRejected(): boolean {
    return this.#trouble;
  }

  /** The error of a step's last attempt in this pass, from which the next delay is read. */
  lastOf(label: string): unknown {
    return this.#attempts.get(label)?.error;
  }

  /**
   * Why the run ended with this error: its step's last attempt, also where the code threw an error of its own with that one as its `cause`;
   * of several the one that the code heard of last (`heard`: in that order), because it may have gone on from the others; or the workflow's
   * own code. Undefined when the platform gave a step up before its last
   * attempt by the code's count, which a deployment may have raised: the keeper asks the platform then.
   */
  reasonFor(error: unknown, heard: readonly string[] = []): Failure | undefined {
    const causes = causesOf(error).filter((cause) => this.#heard.has(cause));
    const turn = (cause: unknown) => heard.indexOf(this.#heard.get(cause) ?? "");
    const own = causes.reduce<unknown>((last, cause) => (last === undefined || turn(cause) > turn(last) ? cause : last), undefined);
    const label = this.#heard.get(own);
    if (label === undefined) return describeFailure("", 1, error);
    const seen = this.#attempts.get(label);
    if (!seen?.last) return undefined;
    if (own === error) return seen.failure;
    const { message } = seen.failure;
    const beside = messageBeside(error, message);
    return beside === ""
      ? seen.failure
      : { ...seen.failure, message: beginning(`${beforeWords(beside, message.length + 3)} (${message})`, 1000) };
  }
}

/** An error, what it says to be its cause, and so on; of several errors in one all of them. */
function causesOf(error: unknown): readonly unknown[] {
  const causes = new Set<unknown>([error]);
  for (const one of causes) for (const cause of saidBy(one)) if (causes.size < MAX_CAUSES) causes.add(cause);
  return [...causes];
}

/** Errors of users may be anything: one that throws when it is read says nothing. */
function saidBy(error: unknown): readonly unknown[] {
  try {
    if (!(error instanceof Error)) return [];
    return error instanceof AggregateError ? [...error.errors] : [error.cause];
  } catch {
    return [];
  }
}

const MAX_CAUSES = 20;
