import { defineStep, type Steps } from "millrace";
import { onTestFinished } from "vitest";
import { mode } from "../../probe/mode.ts";
import { runLab } from "../lab.ts";
import { back, ONCE } from "./operating.ts";

type PaidBy = "keyed" | "natural" | "lookup";

/** A simulated till that executes each request and answers 500 until it is fixed. A later lookup finds the result. */
export function till(of: PaidBy) {
  const state = { mended: false, stands: false, asked: 0 };
  const answer = () => (state.mended ? "paid" : Promise.reject(new Error("The till answered 500.")));
  const run = async () => {
    state.stands = true;
    state.asked++;
    return answer();
  };
  const undo = back(async () => {
    state.stands = false;
  });
  const lookup = async () => answer();
  const pay = of === "lookup" ? defineStep({ effect: of, ...ONCE, run, undo, lookup }) : defineStep({ effect: of, ...ONCE, run, undo });
  return { state, pay };
}

type Code = (step: Steps) => Promise<unknown>;

/** Starts a run that pays, continues without the payment on failure, writes a row, and then does `more`. */
export function begin(steps: "platform" | "inline", of: PaidBy, more: Code = async () => "done") {
  return beginUnwritten(steps, of, async (step) => {
    await step.commit("owe", async () => ({}), { undo: () => ({}) });
    return more(step);
  });
}

/** Starts a run that pays, continues without the payment on failure, and does `more` without a row. */
export async function beginUnwritten(steps: "platform" | "inline", of: PaidBy, more: Code) {
  mode.steps = steps;
  onTestFinished(() => {
    mode.steps = "platform";
  });
  const its = till(of);
  const { instanceId: id } = await runLab(async ({ step }) => {
    await step.effect("pay", its.pay, {}).catch(() => "owed");
    return more(step);
  });
  return { ...its, id };
}
