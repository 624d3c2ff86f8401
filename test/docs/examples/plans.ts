import { defineCommand, defineConsumer, defineStep, defineWorkflow, type EffectCall, query, sql } from "millrace";
import { defineLaneQueue } from "millrace/lanes";
import * as z from "zod";

const queue = defineLaneQueue({ name: "plans" });

/** A customer wants another plan. */
const PlanChange = defineCommand({
  type: "plan.change",
  payload: z.object({ customer: z.string().min(1), change: z.string().min(1), to: z.enum(["free", "pro", "team"]) }),
  key: ({ change }) => change,
  // One lane for each customer.
  subject: ({ customer }) => customer,
  queue,
});

const billDifference = defineStep({
  effect: "keyed",
  retries: { limit: 2, delay: "1 second" },
  async run({ input, key, fetch }: EffectCall<{ customer: string; from: string; to: string }>) {
    const body = JSON.stringify(input);
    const answer = await fetch("https://bank.example.com/charges", { method: "POST", headers: { "idempotency-key": key }, body });
    if (!answer.ok) throw new Error(`The bank answered ${answer.status}.`);
  },
});

/** Bills the price difference to the former plan. Correct only if no other change of this customer is running. */
export const changePlan = defineWorkflow({
  name: "change-plan",
  on: PlanChange,
  async run({ payload: { customer, to }, step, env }) {
    const from = await step.read("plan", async () => {
      const [now] = await query<{ plan: string }>(env.DB, sql`SELECT plan FROM plans WHERE customer = ${customer}`);
      return now?.plan ?? "free";
    });
    const plan = sql`INSERT INTO plans (customer, plan) VALUES (${customer}, ${to}) ON CONFLICT (customer) DO UPDATE SET plan = excluded.plan`;
    await step.effect("bill", billDifference, { customer, from, to }, { record: () => ({ statements: [plan] }) });
  },
});

export const planConsumer = defineConsumer({ queue, starts: [changePlan], concurrency: 1, onFailure: "block" });
