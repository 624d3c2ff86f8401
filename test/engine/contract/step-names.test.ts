import fc from "fast-check";
import { expect, it } from "vitest";
import { codeLabelOf, itemOf, OWN_PARTS, ownName, ownStep } from "../../../packages/millrace/src/contract/step-names.ts";

const WAITS = new Set(["in_doubt", "paused", "signal", "answer"]);
const typeOf = (part: string) => (WAITS.has(part) ? ("waitForEvent" as const) : ("do" as const));

it("the names of the engine's own steps are unchanged, so that existing runs continue", () => {
  expect(OWN_PARTS.map((part) => [ownName("pay", part, 1), ownName("pay", part, 2)])).toEqual([
    ["pay · in doubt 1", "pay · in doubt 2"],
    ["pay · after doubt 1", "pay · after doubt 2"],
    ["pay · paused 1", "pay · paused 2"],
    ["pay · after pause 1", "pay · after pause 2"],
    ["pay · signal", "pay · signal 2"],
    ["pay · answer", "pay · answer 2"],
    ["pay · time is over", "pay · time is over 2"],
    ["pay · read again 1", "pay · read again 2"],
    ["pay · run 1", "pay · run 2"],
    ["pay · version not deployed", "pay · version not deployed 2"],
  ]);
});

it("the name of an engine step is parsed back to its parts, for any name of the step in the code", () => {
  for (const code of ["pay", "undo pay [a · b]", "pay · fee", "· x ·", "two\nlines"]) {
    expect(ownStep({ type: "do", name: code })).toBeUndefined();
    for (const part of OWN_PARTS) {
      for (const nth of [1, 2, 12]) {
        const step = { type: typeOf(part), name: ownName(code, part, nth) };
        expect(ownStep(step)).toEqual({ about: code, part, nth });
        expect(codeLabelOf(step)).toBe(code);
      }
    }
  }
  expect(codeLabelOf({ type: "do", name: ownName(ownName("pay", "after_doubt", 1), "run", 3) })).toBe("pay");
});

it("a step name that only resembles an engine step is treated as a step of the code", () => {
  for (const name of ["get · answer", "is · paused 1", "call · run", "ask · time is over 1", "a · after doubt 01", " · run 2"]) {
    expect(codeLabelOf({ type: "do", name })).toBe(name);
  }
  expect(codeLabelOf({ type: "sleep", name: "rest · run 2" })).toBe("rest · run 2");
});

const keyOf = (...characters: string[]) => fc.string({ unit: fc.constantFrom(...characters), maxLength: 6 });

it("two different lists of step.map keys never give the same step name", () => {
  const keys = fc.array(keyOf("a", "/", "%", "2", "5", "f", "F", "%2f", "%25"), { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(keys, keys, (one, other) => {
      expect(itemOf(one) === itemOf(other)).toBe(JSON.stringify(one) === JSON.stringify(other));
    }),
    {
      numRuns: 5000,
      examples: [
        [
          ["en", "us/a"],
          ["en/us", "a"],
        ],
        [["a/b"], ["a", "b"]],
        [["a", ""], ["a"]],
        [["%2f"], ["/"]],
        [["a/"], ["a%252f"]],
      ],
    },
  );
});

it("an item key without a slash is unchanged in the step name, also if it is percent-encoded", () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      // `encodeURIComponent` writes "%2F", so an escape of the engine is in the key only if the text contains it.
      const key = encodeURIComponent(text.toWellFormed().replaceAll("2f", ""));
      expect(itemOf([key])).toBe(key);
    }),
  );
  expect(itemOf(["en", "us"])).toBe("en/us");
  expect(itemOf(["en/us", "/"])).toBe("en%2fus/%2f");
});
