import { errors } from "millrace";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { mode } from "../../probe/mode.ts";
import { asking } from "../asking.ts";
import { operator, reaches } from "../harness.ts";
import { errorOf, runLab } from "../lab.ts";

class QuotaError extends Error {
  override readonly name = "QuotaError";
}

const cyclic = new Error("Round.");
cyclic.cause = Object.assign(new Error("And round."), { cause: cyclic });

const refused = new Error("connection refused by courier");

/** A chain of this many errors, each the cause of the one before. */
function chain(count: number): Error {
  const numbers = Array.from({ length: count }, (_, at) => count - at);
  return numbers.reduce<Error | undefined>((cause, at) => new Error(String(at), { cause }), undefined) as Error;
}

/** Thrown values, and the shown messages. */
const thrown: [what: string, value: unknown, words: string][] = [
  ["an error", new Error("The bank is unavailable."), "The bank is unavailable."],
  ["an error with a cause", new Error("Booking failed", { cause: refused }), "Booking failed: connection refused by courier"],
  ["a full sentence and its cause", new Error("Booking failed.", { cause: refused }), "Booking failed. connection refused by courier"],
  [
    "a chain of causes",
    new Error("Booking failed", { cause: new Error("no route", { cause: "cable cut" }) }),
    "Booking failed: no route: cable cut",
  ],
  ["a cause with the same text", new Error("Failed: no route", { cause: new Error("no route") }), "Failed: no route"],
  ["two causes with the same text", new Error("no route", { cause: new Error("no route", { cause: "dug up" }) }), "no route: dug up"],
  ["a cyclic cause", cyclic, "Round. And round."],
  [
    "several errors",
    new AggregateError([new Error("a"), new Error("b"), new Error("c"), new Error("d")], "No branch came through"),
    "No branch came through: a; b; c; and 1 more",
  ],
  [
    "five errors and a cause",
    new AggregateError(
      ["a", "b", "c", "d", "e"].map((said) => new Error(said)),
      "No branch came through",
      { cause: refused },
    ),
    "No branch came through: a; b; c; and 2 more; connection refused by courier",
  ],
  ["eight causes", chain(8), "1: 2: 3: 4: 5: 6: 7: 8"],
  ["nine causes", chain(9), "1: 2: 3: 4: 5: 6: 7: and 1 more; 9"],
  ["many causes", chain(40), "1: 2: 3: 4: 5: 6: 7: and 32 more; 40"],
  ["a long message and a cause", new Error("x".repeat(3000), { cause: refused }), `${"x".repeat(968)}… connection refused by courier`],
  [
    "long causes",
    new Error("x".repeat(3000), { cause: new Error("y".repeat(3000), { cause: refused }) }),
    `${"x".repeat(100)}… ${"y".repeat(866)}… connection refused by courier`,
  ],
  ["several errors without a message", new AggregateError([new Error("by rail"), new Error("by road")]), "by rail; by road"],
  [
    "a plain object",
    { message: "duplicate key value violates unique constraint", code: "23505" },
    "duplicate key value violates unique constraint",
  ],
  ["an error within a plain object", { error: { message: "inner words" } }, "inner words"],
  ["a text within a plain object", { error: "invalid_grant" }, "invalid_grant"],
  ["errors within a plain object", { data: null, errors: [{ message: "No such field." }] }, "No such field."],
  ["an object without a text", { status: 7, code: "E7" }, '{"status":7,"code":"E7"}'],
  ["a list", [1, "b"], '[1,"b"]'],
  ["an answer", new Response("busy", { status: 503, statusText: "Busy" }), "HTTP 503 Busy"],
  ["an error without a message", new Error(""), "Error"],
  ["an error of a class without a message", new QuotaError(""), "QuotaError"],
  ["an error without a message, and its cause", new Error("", { cause: refused }), "connection refused by courier"],
  ["an empty object", {}, "A thrown Object that has no text."],
  ["an object without a prototype", Object.create(null), "A thrown object that has no text."],
  [
    "an error whose message throws",
    Object.defineProperty(new Error("x"), "message", {
      get: () => {
        throw 7;
      },
    }),
    "Error",
  ],
  [
    "an error whose cause throws",
    Object.defineProperty(new Error("Kept."), "cause", {
      get: () => {
        throw 7;
      },
    }),
    "Kept.",
  ],
  ["undefined", undefined, "undefined"],
  ["null", null, "null"],
  ["a text", "just words", "just words"],
  ["a number", 7, "7"],
  ["a symbol", Symbol("mark"), "Symbol(mark)"],
];

it.each(thrown)("the message of %s is shown when it is thrown", (_, value, words) => {
  expect(errors.messageOf(value)).toBe(words);
});

it("the messages of causes and of thrown objects have a maximum length, and are not cut within a character", () => {
  const long = "😀".repeat(1_000_000);
  for (const value of [new Error("Long.", { cause: new Error(long) }), { message: long }, new AggregateError([long, long], "Long.")]) {
    const words = errors.messageOf(value);
    expect(words.length).toBeLessThan(51_000);
    expect(words.isWellFormed()).toBe(true);
  }
});

it("an endless chain of causes has a finite message, and a long error of the workflow code is cut", async () => {
  class Endless extends Error {
    override get cause() {
      return new Endless("again");
    }
  }
  expect(errors.messageOf(new Endless("first"))).toContain("first: again");
  const { instanceId } = await runLab(({ step }) =>
    step
      .read("look", () => Promise.reject(refused), { retries: { limit: 0, delay: 1 } })
      .catch((cause) => Promise.reject(new Error("x".repeat(3000), { cause }))),
  );
  expect(await reaches(instanceId, "errored", "complete")).toBe("errored");
  expect((await errorOf(instanceId))?.message).toBe(`${"x".repeat(967)}… (connection refused by courier)`);
});

describe.each(["platform", "inline"] as const)("Failed steps (%s)", (steps) => {
  const failing = thrown.filter(([, value]) => value !== undefined && typeof value !== "symbol");

  it.each(failing)(
    "a failed step that throws %s shows the reason in its instance, its attempts and the log, and to the code",
    async (_, value, words) => {
      const before = mode.steps;
      mode.steps = steps;
      const spy = vi.spyOn(console, "error");
      onTestFinished(() => {
        mode.steps = before;
        spy.mockRestore();
      });
      let heard: unknown;
      const { instanceId } = await runLab(({ step }) =>
        step
          .read("look", () => Promise.reject(value), { retries: { limit: 0, delay: 1 } })
          .catch((error) => {
            heard = error;
            throw error;
          }),
      );
      expect(await reaches(instanceId, "errored", "complete")).toBe("errored");
      expect(await errorOf(instanceId)).toMatchObject({ step: "look", code: "step_failed", message: words });
      // The platform puts the name of a class before the message.
      expect((heard as Error).message).toContain(words);
      const { get } = await asking(["read"], operator.tenantId);
      const [look] = (await get(`/v1/instances/${instanceId}/steps`)).body.items;
      expect(look.attempts[0].error.message).toBe(words);
      const lines = spy.mock.calls.map(([line]) => String(line)).filter((line) => line.includes(instanceId));
      expect(lines.map((line) => JSON.parse(line).error)).toContain(words);
    },
  );
});

it.each([
  [
    "a cause",
    (email: string) => new Error("Booking failed", { cause: new Error(`no mailbox ${email}`) }),
    "Booking failed: no mailbox [redacted]",
  ],
  ["a plain object", (email: string) => ({ status: 7, to: email }), '{"status":7,"to":"[redacted]"}'],
  ["one of several errors", (email: string) => new AggregateError([new Error(email)], "All failed"), "All failed: [redacted]"],
])("a sensitive value in the message of %s is redacted in the instance, its attempts and the log", async (_, make, words) => {
  const person = { email: "ada@shop.example", city: "Graz" };
  const spy = vi.spyOn(console, "error");
  onTestFinished(() => spy.mockRestore());
  const { instanceId } = await runLab(
    ({ step, payload }) => step.read("look", () => Promise.reject(make(payload.person?.email ?? "")), { retries: { limit: 0, delay: 1 } }),
    { person },
  );
  expect(await reaches(instanceId, "errored", "complete")).toBe("errored");
  const { get } = await asking(["read"], operator.tenantId);
  expect((await get(`/v1/instances/${instanceId}`)).body.error.message).toBe(words);
  expect((await get(`/v1/instances/${instanceId}/steps`)).body.items[0].attempts[0].error.message).toBe(words);
  const lines = spy.mock.calls.map(([line]) => String(line)).filter((line) => line.includes(instanceId));
  expect(lines.map((line) => JSON.parse(line).error)).toContain(words);
  expect(lines.join()).not.toContain(person.email);
});
