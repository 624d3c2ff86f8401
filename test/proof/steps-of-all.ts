import { type Act, type Inline, type Leaf, leavesOf, type Own, type Program, withLeaves } from "./program.ts";

/** The kind of guarded steps: all `inline` (inline), all by the `platform`, or `drawn` for each. */
export const STEPS_OF_ALL = ["inline", "platform", "drawn"] as const;
export type StepsOfAll = (typeof STEPS_OF_ALL)[number];

/** The option of a command, or the environment variable: `drawn` by default. Errors: for another value. */
export function stepsWanted(word: string = "drawn"): StepsOfAll {
  const steps = STEPS_OF_ALL.find((one) => one === word);
  if (steps === undefined) throw new Error(`The step mode must be one of ${STEPS_OF_ALL.join(", ")}, not "${word}".`);
  return steps;
}

/** The program with this kind of steps. An undoable effect that could not be inline for that reason becomes an effect without undo. */
export function stepsTaken(program: Program, steps: StepsOfAll): Program {
  if (steps === "drawn") return program;
  return withLeaves(program, (leaf) => {
    if (!isGuarded(leaf)) return leaf;
    if (steps === "platform") return { ...leaf, inline: undefined };
    return leaf.do === "keyed" || leaf.do === "natural" ? { ...leaf, stays: true, inline: "inline" } : { ...leaf, inline: "inline" };
  });
}

/** The kind of all of a program's guarded steps; undefined if they differ, and if it has none. */
export function oneModeOf(program: Program): { readonly inline: Inline | undefined } | undefined {
  const modes = new Set(leavesOf(program).flatMap(({ leaf }) => (isGuarded(leaf) ? [leaf.inline] : [])));
  const [inline] = modes;
  return modes.size === 1 ? { inline } : undefined;
}

const GUARDED: ReadonlySet<string> = new Set(["keyed", "natural", "lookup", "once", "commit"]);

function isGuarded(leaf: Leaf): leaf is Act | Own {
  return GUARDED.has(leaf.do);
}
