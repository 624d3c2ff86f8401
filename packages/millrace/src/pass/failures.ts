import { beforeWords, messageBeside } from "../contract/error-words.ts";
import { beginning } from "../contract/text.ts";
import { describeFailure, type Failure } from "./failure.ts";

interface Failed {
  readonly error: unknown;
  readonly last: boolean;
  readonly failure: Failure;
}

/** The failed attempts of one replay, and the step of each error that the workflow's code receives. */
export class Failures {
  readonly #attempts = new Map<string, Failed>();
  readonly #heard = new Map<unknown, string>();
  readonly #unclear = new Set<string>();
  #trouble = false;

  /** Records a failed attempt. `last` is true if the platform will not retry the step. */
  note(label: string, attempt: number, error: unknown, last: boolean): void {
    this.#attempts.set(label, { error, last, failure: describeFailure(label, attempt, error) });
  }

  /** Records an attempt with an unknown outcome. The outcome remains unknown even if the upstream refuses a later attempt. */
  noteUnclear(label: string): void {
    this.#unclear.add(label);
  }

  isUnclear(label: string): boolean {
    return this.#unclear.has(label);
  }

  noteEnd(label: string, error: unknown): void {
    this.note(label, 1, error, true);
    this.#heard.set(error, label);
  }

  noteRejected(label: string, error: unknown): void {
    this.#trouble = true;
    this.#heard.set(error, label);
  }

  get hasRejected(): boolean {
    return this.#trouble;
  }

  /** The error of a step's last attempt in this replay. The error may request the delay before the next attempt. */
  lastOf(label: string): unknown {
    return this.#attempts.get(label)?.error;
  }

  /**
   * The failure that ended the run. If the thrown error, or a `cause` of the thrown error, is a step's error, the result is the failure of
   * this step. If the errors of several steps match, the result is the failure that is last in `heard`, the order in which the code
   * received failures. Any other error is a failure of the workflow's code. The result is undefined if the platform stopped retrying the
   * step before the code's limit of attempts, because a deployment may have raised this limit. Then the keeper polls the platform.
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

function causesOf(error: unknown): readonly unknown[] {
  const causes = new Set<unknown>([error]);
  for (const one of causes) for (const cause of saidBy(one)) if (causes.size < MAX_CAUSES) causes.add(cause);
  return [...causes];
}

/** The causes of an error. If reading an error of the app throws, the result has no causes. */
function saidBy(error: unknown): readonly unknown[] {
  try {
    if (!(error instanceof Error)) return [];
    return error instanceof AggregateError ? [...error.errors] : [error.cause];
  } catch {
    return [];
  }
}

const MAX_CAUSES = 20;
