// The possible outcomes of a step, by the documented guarantees: this file must not import from `src/`.
import { type Leaf, MAX_LEAVES, type Program, STEP_RETRIES, sharedValue } from "./program.ts";

/** The possible decisions at a place. */
export function decisionsOf(program: Program, at: string): (string | number)[] {
  if (program.do === "race") return program.parts.map((_, index) => index);
  if (program.do === "try") return program.bare ? [] : ["caught"];
  return "part" in program || "parts" in program ? [] : answersOf(program, at);
}

const AGAIN = { reminded: ["heard one"], pair: ["heard one and two"] };

/** The possible answers of a wait or a question. */
export function answersOf(leaf: Leaf, at: string): string[] {
  switch (leaf.do) {
    case "wait": {
      if (leaf.shared) {
        const heard = Array.from({ length: MAX_LEAVES }, (_, index) => `heard ${sharedValue(index + 1)}`);
        return leaf.brief ? [...heard, "late"] : heard;
      }
      const heard = { early: ["heard one"], asked: ["heard one"], twice: ["heard one", "heard two"], never: [], ...AGAIN }[leaf.comes];
      return leaf.brief ? [...heard, "late"] : heard;
    }
    case "ask":
      if (leaf.answer === "never") return [leaf.otherwise === "approve" ? "yes by nobody" : "no by nobody"];
      return [`${leaf.answer} by tess`];
    case "told":
      return [`heard ${at}`];
    case "return":
      return ["left"];
    default:
      return [];
  }
}

/**
 * True if a step can fail permanently: the upstream refuses it permanently, or more often than there are attempts. An attempt in which the
 * process died (`dies`) counts as one of its attempts, so that fewer refusals are sufficient.
 */
export function mayFail(leaf: Leaf, dies: boolean): boolean {
  if ("upstream" in leaf && leaf.upstream) return dies || leaf.upstream.is === "never" || leaf.upstream.times > STEP_RETRIES;
  return "fails" in leaf && (leaf.fails === "for good" || leaf.fails === "later");
}
