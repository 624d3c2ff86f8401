// The proof's interface to the engine: nothing of the platform may be imported here, so that it runs in any process.
import type { Effect, Resolution } from "millrace/operate";
import type { Fault, Watch } from "./fault.ts";
import type { Program } from "./program.ts";

/** One run: its name, which its subjects begin with, its instance, and its program. */
export interface Subject {
  name: string;
  id: string;
  program: Program;
}

/** A command for a run. Default: of the operator's own tenant, under the key that its payload gives. */
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

/** A run's question, as its answerer sees it. */
export interface Question {
  id: string;
  state: string;
  details: Record<string, unknown> | null;
}

/** The ids of a run's items that another caller could request: dead letters, questions, and effects in doubt. */
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

/** An engine on trial, from outside. Refusals are thrown with their code. */
export interface Stage {
  /** True if a request may arrive more often than it was sent: over an unreliable connection. */
  readonly repeats: boolean;
  /** Where the upstream listens. */
  readonly upstreamUrl: string;
  /** The end of injected failures, as `Date.now()`; 0 for none. */
  disturbedUntil(): number;
  /** The instance that a run of this name is. */
  idOf(name: string): Promise<string>;
  /** Makes the calls about a run known that shall fail. */
  watch(names: readonly string[], faults: readonly Fault[]): Watch;
  /** Makes the code of a run known before it is asked for. `runs`: how many runs operators have begun so far. */
  cast(run: Subject, runs: () => number): void;
  /** Requests runs over the API, in one request; each is answered separately. */
  enqueue(requests: readonly Asking[]): Promise<(Taken | Error)[]>;
  /** Hands messages to a queue's consumer, and answers how many it has settled. */
  deliver(queue: string, bodies: unknown[], attempt: number): Promise<{ acked: number }>;
  rows<T = Record<string, unknown>>(sql: string, ...params: unknown[]): Promise<T[]>;
  /** Of which commits of a run the code has begun, as often as that is known. */
  commitsBegun(name: string): Promise<string[]>;
  /** The number of events that an object got. */
  heard(name: string): Promise<number>;
  platform(id: string): Promise<Standing>;
  /** Has the platform restart a run, at any position. */
  beginAgain(id: string): Promise<void>;
  /** The same; over once the run's code is being passed again. */
  restart(id: string): Promise<void>;
  retry(id: string, options: { reason: string; from?: string | undefined }): Promise<unknown>;
  undo(id: string, reason: string): Promise<unknown>;
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
  /** Tries all requests about a run in the name of another tenant, and returns the accepted ones. */
  meddle(tenantId: string, theirs: Theirs): Promise<string[]>;
  decide(question: string, decision: "approve" | "reject", reason: string): Promise<unknown>;
  /** Ages an ended run past its retention, and has it removed; where that can be done. */
  growOld?(run: Subject): Promise<void>;
  /** A round of the keeper, where it does not do them by itself. */
  round(): Promise<void>;
}

/** The engine's operator in the proof. */
export const operator = { tenantId: "acme", actor: "tess" };

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** The code of an error that the engine gave one: this module cannot ask the engine's own function. */
export const codeOf = (error: unknown): string | undefined =>
  error instanceof Error && error.name === "MillraceError" && "code" in error ? String(error.code) : undefined;
