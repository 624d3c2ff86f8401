import { expect, it } from "vitest";
import { progressLine } from "../../packages/millrace/cli/operate/step-words.ts";

it("the progress of a step is one line: its name, a bar, the percentage, and its numbers with their unit", () => {
  const step = { step: "copy [a]", attempt: 1, share: 0.4, done: 40, of: 100, text: "pages" };
  expect(progressLine(step)).toBe("copy [a]  ████████░░░░░░░░░░░░  40 %  40 of 100 pages");
  expect(progressLine({ ...step, share: null, of: null })).toBe("copy [a]  40 pages");
  expect(progressLine({ ...step, share: 0.999, done: null, of: null, text: null })).toBe("copy [a]  ████████████████████  99 %");
  expect(progressLine({ ...step, share: null, done: null, of: null, text: "\u001b[2Jlast\npage" })).toBe("copy [a]  last page");
});
