// The interface of the random tests to the engine: this file must not import from the platform, so that it runs in any process.
import type { Effect } from "../../packages/millrace/src/inspect/effects.ts";
import type { Resolution } from "../../packages/millrace/src/operate/instances/resolve.ts";
import type { Fault, Watch } from "./fault.ts";
import type { Program } from "./program.ts";

/** One run: its name, which is the prefix of its subjects, its instance, and its program. */
export interface Subject {
  name: string;
  id: string;
  program: Program;
}

/** A command for a run. Default: of the operator's own tenant, under the key derived from its payload. */
export interface Asking {
  payload: Record<string, unknown>;
  tenantId?: string | undefined;
  key?: string | undefined;
  /** The deadline of its end. Default: none. */
  mustEndBy?: string | undefined;
}

/** A command that was accepted: now, or before. */
export interface Taken {
  instanceId: string;
  replayed: boolean;
}

/** A run's question, as an operator sees it. */
export interface Question {
  id: string;
  state: string;
  details: Record<string, unknown> | null;
}

/** The ids of a run's items that another caller could request: dead letters, questions, and effects with unknown outcomes. */
export interface Theirs {
  run: string;
  letters: readonly string[];
  questions: readonly string[];
  doubts: readonly string[];
}

/** A run's status on the platform, and its output. */
export interface Standing {
  status: string;
  output?: unknown;
}

/** An engine under test, from outside. Refusals are thrown with their code. */
export interface Stage {
  /** True if a request may arrive more often than it was sent: over an unreliable connection. */
  readonly repeats: boolean;
  /** The address of the upstream. */
  readonly upstreamUrl: string;
  /** The end of injected failures, as `Date.now()`; 0 for none. */
  disturbedUntil(): number;
  /** The instance of the run with this name. */
  idOf(name: string): Promise<string>;
  /** Registers the calls about a run that must fail. */
  watch(names: readonly string[], faults: readonly Fault[]): Watch;
  /** Registers the code of a run before it is requested. `runs`: the number of runs that operators have started so far. */
  cast(run: Subject, runs: () => number): void;
  /** Requests runs over the API, in one request; each is answered separately. */
  enqueue(requests: readonly Asking[]): Promise<(Taken | Error)[]>;
  /** Delivers messages to a queue's consumer, and returns how many it has settled. */
  deliver(queue: string, bodies: unknown[], attempt: number): Promise<{ acked: number }>;
  rows<T = Record<string, unknown>>(sql: string, ...params: unknown[]): Promise<T[]>;
  /** The rows of all databases, if the tenants of the tests have several. */
  everywhere<T = Record<string, unknown>>(sql: string, ...params: unknown[]): Promise<T[]>;
  /** The commits of a run whose code has started, with repeats if they are known. */
  commitsBegun(name: string): Promise<string[]>;
  /** The number of events that an object got. */
  heard(name: string): Promise<number>;
  platform(id: string): Promise<Standing>;
  /** Makes the platform restart a run, at any position. */
  beginAgain(id: string): Promise<void>;
  /** Makes the platform restart a run; returns once the run's code is being replayed. */
  restart(id: string): Promise<void>;
  retry(id: string, options: { reason: string; from?: string | undefined }): Promise<unknown>;
  undo(id: string, reason: string): Promise<unknown>;
  /** Starts a run that waits for a slot, or for its time. */
  release(id: string, reason: string): Promise<unknown>;
  /** Cancels a run; `undo: false` keeps its effects. */
  cancel(id: string, options: { reason: string; undo: boolean }): Promise<unknown>;
  pause(id: string, reason: string): Promise<unknown>;
  resume(id: string, reason: string): Promise<unknown>;
  /** An operator restarts a run's code. */
  passAnew(id: string, reason: string): Promise<unknown>;
  skipStep(id: string, step: { step: string; item?: string | undefined; output: unknown; reason: string }): Promise<unknown>;
  close(id: string, reason: string): Promise<unknown>;
  /** Sends an event to one run alone. */
  signal(id: string, signal: { type: string; payload: unknown; idempotencyKey: string; reason: string }): Promise<unknown>;
  effects(id: string): Promise<Effect[]>;
  resolve(key: string, resolution: Resolution, reason: string): Promise<unknown>;
  questions(id: string): Promise<Question[]>;
  /** Settles a dead letter without a replay. */
  skip(letter: string, reason: string): Promise<unknown>;
  /** Sends all requests about a run in the name of another tenant, and returns the accepted ones. */
  meddle(tenantId: string, theirs: Theirs): Promise<string[]>;
  decide(question: string, decision: "approve" | "reject", reason: string): Promise<unknown>;
  /** Ages an ended run past its retention, and lets retention remove it, if the engine supports that. */
  growOld?(run: Subject): Promise<void>;
  /** Runs a scan of the keeper, if the keeper does not run by itself. */
  round(): Promise<void>;
}

/** The engine's operator in the random tests. */
export const operator = { tenantId: "acme", actor: "tess" };

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** The code of an error that the engine returned: this module cannot call the engine's own function. */
export const codeOf = (error: unknown): string | undefined =>
  error instanceof Error && error.name === "MillraceError" && "code" in error ? String(error.code) : undefined;
