/** Prefix of undo steps' names. */
export const UNDO_PREFIX = "undo ";

/** The name on the platform of a step, or of one of its parallel calls. */
export function labelOf(name: string, item: string): string {
  return item ? `${name} [${item}]` : name;
}

/**
 * The data key of a step inside maps: the keys of its items, outermost first, then the step's own. Two different lists of keys never give
 * the same text.
 */
export function itemOf(keys: readonly string[]): string {
  return keys.map(withoutSlash).join("/");
}

/**
 * Escapes a key for a place between slashes: `/` becomes `%2f`. A text that reads as such an escape gets one more `25`: `%2f` becomes
 * `%252f`. Every other text is left unchanged.
 */
export function withoutSlash(text: string): string {
  return text.replace(/\/|%((?:25)*)2f/g, (found, escapes: string) => (found === "/" ? "%2f" : `%25${escapes}2f`));
}

type PlatformType = "do" | "sleep" | "waitForEvent";

/** What stands behind the name of the code's step; the platform's type of such a step; and whether the first of them has a number too. */
interface OwnName {
  readonly words: string;
  readonly type: PlatformType;
  readonly countsFirst: boolean;
}

/**
 * The engine's own steps about a step of the code, and their names. `in_doubt`, `paused`: the wait for a person's word · `after_doubt`,
 * `after_pause`: the attempt behind that · `signal`, `answer`: the wait for an event, or for an answer · `time_over`: the look at what came
 * of such a wait · `read_again`: a read that was out of reach · `run`: the step tried anew, where the platform remembers a failure of it.
 * No name may change: runs that began before are known by them.
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
} as const satisfies Record<string, OwnName>;

/** What a step of the engine's own is for. */
export type OwnPart = keyof typeof OWN_NAMES;

export const OWN_PARTS = Object.keys(OWN_NAMES) as [OwnPart, ...OwnPart[]];

/** The name on the platform of an engine's own step about the step `of`: the `nth` of its part. */
export function ownName(of: string, part: OwnPart, nth: number): string {
  const { words, countsFirst } = OWN_NAMES[part];
  return nth === 1 && !countsFirst ? `${of} · ${words}` : `${of} · ${words} ${nth}`;
}

/** A step of the engine's own, by its name on the platform. */
interface OwnStep {
  /** The name on the platform of the step that it is about: one of the code's, or another of the engine's own. */
  readonly about: string;
  readonly part: OwnPart;
  readonly nth: number;
}

const READ = new RegExp(`^(.+) · (${OWN_PARTS.map((part) => OWN_NAMES[part].words).join("|")})(?: ([1-9][0-9]*))?$`, "s");

/** Reads such a name; undefined for a step of the code. */
export function ownStep({ type, name }: { type: PlatformType; name: string }): OwnStep | undefined {
  const [, about, words, nth = "1"] = READ.exec(name) ?? [];
  const part = OWN_PARTS.find((one) => OWN_NAMES[one].words === words && OWN_NAMES[one].type === type);
  if (about === undefined || part === undefined || ownName(about, part, Number(nth)) !== name) return undefined;
  return { about, part, nth: Number(nth) };
}

/** The name of the code's step that a step on the platform is, or is about. */
export function codeLabelOf(step: { type: PlatformType; name: string }): string {
  const own = ownStep(step);
  // Behind the engine's own there is always one that is made: no wait is about a wait.
  return own ? codeLabelOf({ type: "do", name: own.about }) : step.name;
}
