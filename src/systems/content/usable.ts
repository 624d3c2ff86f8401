import { texts } from "millrace";
import type { TextAnswer } from "../../providers/index.ts";
import type { BadAnswer } from "./bad-answer.ts";

/** The reason why an answer cannot be used, as a code and as a text for a person and for the model. */
export interface Unusable {
  bad: BadAnswer;
  problem: string;
}

const MAX_REFUSAL_CHARACTERS = 300;

const UNREADABLE = "It was no chat completion: check that TEXT_URL points at the right service, and that TEXT_MODEL names a chat model.";

/** Returns the reason why an answer has no usable text; undefined if the answer has usable text. */
export function unusable(answer: TextAnswer): Unusable | undefined {
  if (answer.ending === "refused") {
    const words = answer.refusal && texts.beginning(answer.refusal.replaceAll(/\s+/g, " ").trim(), MAX_REFUSAL_CHARACTERS);
    return { bad: "refused", problem: words ? `The model refused: "${words}"` : "The model, or its provider's filter, refused." };
  }
  // A reasoning model can use all its tokens before the first word of its answer. Such an answer counts as truncated too, because more
  // tokens help.
  if (answer.ending === "truncated") return { bad: "truncated", problem: "It was truncated." };
  if (answer.ending === "unreadable") return { bad: "empty", problem: UNREADABLE };
  return answer.text === "" ? { bad: "empty", problem: "It was empty." } : undefined;
}
