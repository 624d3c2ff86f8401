import { useState } from "preact/hooks";

/** Shows the result of the last action, and announces the result to screen readers. */
export function useTold(again: () => void) {
  const [said, say] = useState("");
  const told = (sentence: string) => {
    say(sentence);
    again();
  };
  return {
    told,
    line: (
      <p class="told" role="status">
        {said}
      </p>
    ),
  };
}
