import { useState } from "preact/hooks";

/** What came of the last act of a page, said to whoever looks and to whoever listens. */
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
