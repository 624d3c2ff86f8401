import { notRetryable, retryAfter, upstreamRefused } from "millrace";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { LabCall } from "../../probe/lab.ts";
import { mode } from "../../probe/mode.ts";
import { reaches, rows } from "../harness.ts";
import { errorOf, runLab } from "../lab.ts";
import { effect } from "../operate/operating.ts";

const TWICE = { retries: { limit: 1, delay: 10 } } as const;

/** Texts that the platform changes, with the message that the run's error must contain. */
const texts: [what: string, text: string, words: string][] = [
  ["half a surrogate pair at its end", `The model said: ${"Great 😀".slice(0, 7)}`, "The model said: Great \uFFFD"],
  ["half a surrogate pair alone", "\uDC00", "\uFFFD"],
  ["a NUL", "upstream said \0 PNG", "upstream said \uFFFD PNG"],
  ["a NUL first", "\0", "\uFFFD"],
  ["a blank first", " x", "x"],
  ["300 characters after a blank", ` ${"y".repeat(300)}`, "y".repeat(300)],
  ["a blank last", "x \n", "x"],
  ["a line break", "\r\nfirst\r\nsecond\r\n", "first\r\nsecond"],
  [
    "control characters",
    `a${String.fromCharCode(
      ...Array(31)
        .keys()
        .map((code) => code + 1),
    )}\x7F\x85\xA0\u2028\uFEFFz`,
    "",
  ],
  ["blanks alone", " \t\n", "Error"],
  ["nothing", "", "Error"],
  ["50,000 characters", "é".repeat(50_000), "é".repeat(1000)],
  [
    "the name of an error class of the platform",
    "jsg.TypeError: no; expected a; jsg.Error: b",
    "jsg.TypeError: no; expected a; jsg.Error: b",
  ],
];

type Step = LabCall["step"];

/** Each kind of step, with a function that makes it fail. */
const steps: [of: string, fails: (step: Step, fail: () => never) => Promise<unknown>][] = [
  ["a read", (step, fail) => step.read("call", async () => fail(), TWICE)],
  ["a keyed effect", (step, fail) => step.effect("call", { ...effect("keyed", async () => fail()), ...TWICE }, {})],
  ["a natural effect", (step, fail) => step.effect("call", { ...effect("natural", async () => fail()), ...TWICE }, {})],
  ["a commit", (step, fail) => step.commit("call", () => fail(), TWICE)],
];

/** Executes a run with a step that throws this error. Returns the number of attempts, the run's end and the code's reaction. */
async function failing(fails: (step: Step, fail: () => never) => Promise<unknown>, make: () => Error) {
  let tries = 0;
  const { instanceId } = await runLab(({ step }) =>
    fails(step, () => {
      tries++;
      throw make();
    }).catch(async (error) => {
      await step.commit("instead", () => ({ output: "taken back" }));
      throw error;
    }),
  );
  const status = await reaches(instanceId, "errored", "complete", "in_doubt");
  const [row] = await rows<{ broken_off: string | null }>("SELECT broken_off FROM millrace_instances WHERE id = ?1", instanceId);
  const instead = await rows("SELECT 1 FROM millrace_inbox WHERE instance_id = ?1 AND step = 'instead'", instanceId);
  return { tries, status, error: await errorOf(instanceId), brokenOff: row?.broken_off, instead: instead.length };
}

describe.each(["platform", "inline"] as const)("With %s steps", (of) => {
  beforeEach(() => {
    mode.steps = of;
  });
  afterEach(() => {
    mode.steps = "platform";
  });

  describe.each(steps)("%s", (_, fails) => {
    it.each(texts)("W34 the error of a failed run contains its text when that text contains %s", async (_, text, words) => {
      const make = () => new Error(text);
      const { error, ...rest } = await failing(fails, make);
      expect(rest).toEqual({ tries: 2, status: "errored", brokenOff: null, instead: 1 });
      expect(error).toMatchObject({ step: "call", code: "step_failed", attempts: 2 });
      expect(error?.message).toContain(words);
      expect(error?.message?.length).toBeLessThanOrEqual(Math.max(words.length, 100));
    });
  });

  const told: [what: string, make: (text: string) => Error, tries: number, code: string][] = [
    ["upstreamRefused", (text) => upstreamRefused(text, 400), 2, "upstream_refused"],
    ["notRetryable", (text) => notRetryable(text), 1, "not_retryable"],
    ["retryAfter", (text) => retryAfter(10, text), 2, "retry_after"],
  ];
  const coded = [
    ...steps,
    ["an effect once", (step, fail) => step.effect("call", { ...effect("once", async () => fail()), ...TWICE }, {})] as (typeof steps)[0],
  ];
  describe.each(told)("%s", (_, make, tries, code) => {
    it.each(coded)("W34 the run's error contains the upstream's text with a NUL replaced, in %s", async (_, fails) => {
      const { error, ...rest } = await failing(fails, () => make("upstream said \0 PNG"));
      expect(rest).toEqual({ tries, status: "errored", brokenOff: null, instead: 1 });
      expect(error).toMatchObject({ step: "call", code, attempts: tries, message: "upstream said \uFFFD PNG" });
    });
  });
});
