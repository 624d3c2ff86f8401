import { MillraceError } from "./errors.ts";

export const UNDO_PREFIX = "undo ";

/** The prefix of the entry that records the start of a child. The step itself waits for the child's end. */
export const CHILD_PREFIX = "child ";

/** The name of a step on the platform, or of one of the step's parallel calls. */
export function labelOf(name: string, item: string): string {
  return item ? `${name} [${item}]` : name;
}

/**
 * The data key of a step inside maps: the keys of the maps' items, outermost first, then the step's own key. Different lists of keys never
 * give the same data key.
 */
export function itemOf(keys: readonly string[]): string {
  return keys.map(withoutSlash).join("/");
}

/**
 * Escapes a key for use between slashes: `/` becomes `%2f`. An existing escape gets one more `25`: `%2f` becomes `%252f`. A key without
 * slashes and escapes is unchanged.
 */
export function withoutSlash(text: string): string {
  return text.replace(/\/|%((?:25)*)2f/g, (found, escapes: string) => (found === "/" ? "%2f" : `%25${escapes}2f`));
}

type PlatformType = "do" | "sleep" | "waitForEvent";

/**
 * How the name of an engine step is built: its suffix after the name of the code's step, its type on the platform, and whether the first
 * such step has a number.
 */
interface OwnName {
  readonly words: string;
  readonly type: PlatformType;
  readonly countsFirst: boolean;
}

/**
 * The names of the steps that the engine adds to a step of the code.
 * - `in_doubt`, `paused`: the wait for an operator
 * - `after_doubt`, `after_pause`: the attempt after the wait
 * - `signal`, `answer`: the wait for an event, or for an approval
 * - `time_over`: the check after the timeout of such a wait
 * - `read_again`: a retry of a read whose result was unavailable
 * - `run`: the step with a new name, when the platform has recorded a failure of it
 * - `version`: the end of a replay whose version the deployed code does not have
 *
 * No name may change: older runs contain them.
 */
const OWN_NAMES = {
  in_doubt: { words: "in doubt", type: "waitForEvent", countsFirst: true },
  after_doubt: { words: "after doubt", type: "do", countsFirst: true },
  paused: { words: "paused", type: "waitForEvent", countsFirst: true },
  after_pause: { words: "after pause", type: "do", countsFirst: true },
  signal: { words: "signal", type: "waitForEvent", countsFirst: false },
  answer: { words: "answer", type: "waitForEvent", countsFirst: false },
  time_over: { words: "time is over", type: "do", countsFirst: false },
  read_again: { words: "read again", type: "do", countsFirst: true },
  run: { words: "run", type: "do", countsFirst: true },
  version: { words: "version not deployed", type: "do", countsFirst: false },
} as const satisfies Record<string, OwnName>;

export type OwnPart = keyof typeof OWN_NAMES;

export const OWN_PARTS = Object.keys(OWN_NAMES) as [OwnPart, ...OwnPart[]];

/** The platform's name of the `nth` step that the engine adds to the step `of`. */
export function ownName(of: string, part: OwnPart, nth: number): string {
  const { words, countsFirst } = OWN_NAMES[part];
  return nth === 1 && !countsFirst ? `${of} · ${words}` : `${of} · ${words} ${nth}`;
}

/** An engine step, parsed from its name on the platform. */
interface OwnStep {
  /** The platform's name of the step to which the engine step belongs: a step of the code, or another engine step. */
  readonly about: string;
  readonly part: OwnPart;
  readonly nth: number;
}

const READ = new RegExp(`^(.+) · (${OWN_PARTS.map((part) => OWN_NAMES[part].words).join("|")})(?: ([1-9][0-9]*))?$`, "s");

/** Parses the platform's name of an engine step; undefined for a step of the code. */
export function ownStep({ type, name }: { type: PlatformType; name: string }): OwnStep | undefined {
  const [, about, words, nth = "1"] = READ.exec(name) ?? [];
  const part = OWN_PARTS.find((one) => OWN_NAMES[one].words === words && OWN_NAMES[one].type === type);
  if (about === undefined || part === undefined || ownName(about, part, Number(nth)) !== name) return undefined;
  return { about, part, nth: Number(nth) };
}

/** The name of the code's step to which a step on the platform belongs. */
export function codeLabelOf(step: { type: PlatformType; name: string }): string {
  const own = ownStep(step);
  // An engine step only belongs to a step of type `do`, never to a wait.
  return own ? codeLabelOf({ type: "do", name: own.about }) : step.name;
}

/**
 * The execution of a guarded step's first attempt. `platform`: as a step of the platform, which is billed and appears in the platform's
 * dashboard. `inline`: inline, within the replay, recorded only in the inbox; from the second attempt on, the attempts are steps of the
 * platform, which can wait without cost.
 */
export type StepMode = "platform" | "inline";

/** Validates the mode of a step. Errors: `config_invalid` for an unknown mode. */
export function assertStepMode(mode: string | undefined, whose: string): void {
  if (mode === undefined || mode === "platform" || mode === "inline") return;
  throw new MillraceError("config_invalid", `${whose}: "steps" must be "platform" or "inline", not "${mode}".`);
}

/**
 * The timeout that the platform gets for a step. The platform's history shows a step's timeout, but not the step's effect class. Therefore
 * a timeout that ends in `READ_MS` marks a step that only reads.
 */
export function markedTimeoutMs(timeoutMs: number, reads: boolean): number {
  return Math.ceil(timeoutMs / SECOND_MS) * SECOND_MS + (reads ? READ_MS : 0);
}

/** True for a timeout in the platform's history that marks a step that only reads. */
export function saysRead(timeout: unknown): boolean {
  return typeof timeout === "number" && timeout % SECOND_MS === READ_MS;
}

const SECOND_MS = 1000;
/**
 * The milliseconds that mark the timeout of a step that only reads. Timeouts of older runs are whole seconds, so those steps do not
 * count as reads.
 */
const READ_MS = 7;
