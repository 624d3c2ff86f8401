import { errors, MillraceError } from "millrace";
import { describe, expect, it } from "vitest";
import { detailOf, isDefiniteRefusal, isTerminal } from "../../../packages/millrace/src/contract/errors.ts";
import { causes, type Listener } from "../../probe/listener.ts";
import { fresh, probeEnv } from "../harness.ts";
import { errorOf, runLab } from "../lab.ts";
import { effect, ended } from "../operate/operating.ts";

const bank = () => probeEnv.LISTENER.getByName(fresh("bank")) as DurableObjectStub<Listener>;

describe("Errors over RPC", () => {
  it.each(Object.keys(causes))(
    "an engine error that crosses RPC keeps its code, detail and message when its cause is %s",
    async (cause) => {
      const error = await (bank().decline(cause) as Promise<unknown>).catch((thrown: unknown) => thrown);
      expect([errors.codeOf(error), isTerminal(error), isDefiniteRefusal(error), detailOf(error).upstreamStatus]).toEqual([
        "card_declined",
        true,
        true,
        402,
      ]);
      expect((error as Error).message).toBe("The card is declined.");
      expect(errors.messageOf(error)).toMatch(/Declined|All failed|expected string|HTTP 402/);
    },
  );

  it("an engine error that crosses RPC ends a once effect at its first attempt, without an unknown outcome", async () => {
    let tried = 0;
    const pay = effect("once", () => {
      tried++;
      return bank().decline("an error with a response");
    });
    const { instanceId } = await runLab(({ step }) => step.effect("pay", pay, {}));
    expect(await ended(instanceId)).toBe("errored");
    expect([tried, await errorOf(instanceId)]).toMatchObject([1, { step: "pay", code: "card_declined" }]);
  });
});

it("an error keeps a serializable cause, and a text in place of a cause that cannot be serialized", () => {
  const inner = new Error("Inner.");
  const outer = Object.assign(new Error("Outer.", { cause: inner }), { response: new Response() });
  expect(new MillraceError("card_declined", "No.", { cause: inner }).cause).toBe(inner);
  const { cause } = new MillraceError("card_declined", "No.", { cause: outer });
  expect(cause).toMatchObject({ name: "Error", message: "Outer. Inner." });
  expect((cause as Error).cause).toBe(inner);
  expect(new MillraceError("card_declined", "No.").cause).toBeUndefined();
});
