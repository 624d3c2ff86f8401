// Only data, used by the model and by the run: this file must not import from `src/`.

/**
 * The upstream's treatment of a step's first calls. No effect: `refuses` (400), `never` accepts (422: a retry cannot help), `away` (503),
 * `limits` (429). An effect without a response: `fails` (500), `drops` the connection, `busy` (409), `garbles` the response, `cuts` it
 * off, `hangs` past the timeout. An effect with a response: `floods` (10 MB), `slow` (a second later).
 */
export interface Upstream {
  is: "refuses" | "never" | "away" | "limits" | "fails" | "drops" | "busy" | "garbles" | "cuts" | "floods" | "hangs" | "slow";
  times: number;
}

/**
 * The replay executes a step's first attempt inline; with `flips`, the code's kind differs in every other replay, as after a deployment.
 */
export type Inline = "inline" | "flips";

/**
 * A guarded effect. `emits`: an event that starts a run, sends a command and goes to an object; `large`: an output that is stored by
 * reference; `stays`: it cannot be undone.
 */
export interface Act {
  do: "keyed" | "natural" | "lookup" | "once";
  upstream?: Upstream | undefined;
  emits?: boolean | undefined;
  large?: boolean | undefined;
  stays?: boolean | undefined;
  inline?: Inline | undefined;
}

/**
 * A commit, or a read. It fails once and is retried; or `for good`: until an operator retries; or `later`: not in the first run, but in
 * the run after that.
 */
export interface Own {
  do: "commit" | "read";
  fails?: "once" | "for good" | "later" | undefined;
  emits?: boolean | undefined;
  large?: boolean | undefined;
  stays?: boolean | undefined;
  inline?: Inline | undefined;
}

/**
 * A wait for an external event. A brief wait may get it too late. `reminded`: the first wait times out, and a second wait for the same
 * event gets it. `pair`: two waits for the same subject get an event each, out of one delivery. `shared`: it waits for the same subject as
 * all other shared waits: there are as many events as waits, and each wait gets its own.
 */
export interface Wait {
  do: "wait";
  comes: "early" | "asked" | "twice" | "never" | "reminded" | "pair";
  brief: boolean;
  shared?: boolean | undefined;
}

/** The subject of all shared waits, after the run's name. */
export const SHARED = "shared";

/** The value of the nth event for shared waits, from 1. */
export const sharedValue = (nth: number): string => `s${nth}`;

/** The maximum number of steps of a program. */
export const MAX_LEAVES = 24;

/** A question to an operator. */
export interface Ask {
  do: "ask";
  answer: "yes" | "no" | "never";
  otherwise: "approve" | "reject";
}

/** A wait for the run's own event of a commit: the commit runs before the wait, or concurrently. */
export interface Told {
  do: "told";
  said: "before" | "beside";
}

/** The code throws its own error in one of its runs: a setting is missing. */
export interface Throw {
  do: "throw";
  run: 1 | 2;
}

export type Leaf = Act | Own | Wait | Ask | Told | Throw | { do: "sleep" } | { do: "return" };

/**
 * A run's program: steps, or parts in sequence, in parallel, as a race, or over items (`map` in parallel, `loop` in sequence). `try` runs
 * `next` in place of a failed part, and records that decision first, unless it is `bare`. `beside` starts a part and continues without
 * waiting for it.
 */
export type Program =
  | Leaf
  | { do: "seq" | "all" | "race"; parts: Program[] }
  | { do: "map" | "loop"; items: number; part: Program }
  | { do: "try" | "beside"; part: Program; next: Program; bare?: boolean | undefined };

/** A part of a program, and its place in it: numbers for parts, letters for items. */
export interface Part {
  program: Program;
  at: string;
}

export const itemsOf = (count: number): string[] => [..."abcdefgh"].slice(0, count);

/** The places of a part's parts. */
export function partsOf(program: Program, at: string): Part[] {
  switch (program.do) {
    case "seq":
    case "all":
    case "race":
      return program.parts.map((part, index) => ({ program: part, at: `${at}.${index}` }));
    case "map":
    case "loop":
      return itemsOf(program.items).map((item) => ({ program: program.part, at: `${at}.${item}` }));
    case "try":
    case "beside":
      return [
        { program: program.part, at: `${at}.0` },
        { program: program.next, at: `${at}.1` },
      ];
    default:
      return [];
  }
}

/** All steps that a program could reach. */
export function leavesOf(program: Program, at = ROOT): { leaf: Leaf; at: string }[] {
  const parts = partsOf(program, at);
  if (!("part" in program) && !("parts" in program)) return [{ leaf: program, at }];
  return parts.flatMap((part) => leavesOf(part.program, part.at));
}

/** The same program with other leaves. */
export function withLeaves(program: Program, each: (leaf: Leaf) => Leaf): Program {
  const inner = (part: Program) => withLeaves(part, each);
  if ("parts" in program) return { ...program, parts: program.parts.map(inner) };
  if ("next" in program) return { ...program, part: inner(program.part), next: inner(program.next) };
  if ("part" in program) return { ...program, part: inner(program.part) };
  return each(program);
}

/** Where a program begins. */
export const ROOT = "r";

/** The code's report of its branch, in the replay that ended: the output of each step, and the decisions. */
export interface Trace {
  /** The length of the note that the run was given. */
  note: number;
  /** The output of each successful step, by its place. */
  did: Record<string, string>;
  /** The failed steps. */
  failed: string[];
  /** The code's decisions, by place: the winner of a race, caught errors, received events and answers. */
  decided: Record<string, string | number>;
  /** The place at which the code returned early. */
  left?: string | undefined;
}

/** The number of automatic retries of a step. */
export const STEP_RETRIES = 5;

/** The timeout of an attempt. */
export const TIMEOUT_MS = 3000;
