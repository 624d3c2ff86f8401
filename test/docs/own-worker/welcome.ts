import { defineStep, defineWorkflow, type EffectCall, sql, upstreamRefused } from "millrace";
import * as z from "zod";

/** The back office: it opens accounts and sends mails. */
const DESK = "http://127.0.0.1:28417";

interface Done {
  id: string;
}

/** Sends a request. A status below 500 means that the desk did nothing. After any other failure the outcome is unknown. */
async function post(what: "accounts" | "mails", { input, fetch }: EffectCall<object>): Promise<Done> {
  const answer = await fetch(`${DESK}/${what}`, { method: "POST", body: JSON.stringify(input) });
  if (answer.ok) return answer.json<Done>();
  if (answer.status < 500) throw upstreamRefused(`The desk refused ${what} with ${answer.status}.`, answer.status);
  throw new Error(`The desk answered ${answer.status}: the outcome is unknown.`);
}

/** A customer has one account, so the account of an earlier attempt can be found. */
const openAccount = defineStep({
  effect: "lookup",
  retries: { limit: 2, delay: "1 second" },
  run: (call: EffectCall<{ customer: string }>) => post("accounts", call),
  async lookup({ input, fetch }) {
    const answer = await fetch(`${DESK}/accounts?${new URLSearchParams({ customer: input.customer })}`);
    if (!answer.ok) throw new Error(`The desk answered ${answer.status} to a look-up.`);
    return (await answer.json<Done[]>())[0];
  },
});

/** A mail cannot be found again. `output` is the schema of an operator's answer to an unknown outcome. */
const sendWelcome = defineStep({
  effect: "once",
  output: z.object({ id: z.string() }),
  retries: { limit: 1, delay: "1 second" },
  run: (call: EffectCall<{ customer: string; to: string; text: string }>) => post("mails", call),
});

/** Opens an account for a new customer, then writes to them. */
export const welcome = defineWorkflow({
  name: "welcome",
  input: z.object({ customer_id: z.string().min(1).max(60), email: z.email() }),
  key: ({ customer_id }) => customer_id,
  async run({ input: { customer_id, email }, step, envelope: { tenant_id } }) {
    const customer = `${tenant_id}/${customer_id}`;
    const account = await step.effect("open account", openAccount, { customer });

    const mail = { customer, to: email, text: `Welcome! Your account is ${account.id}.` };
    const row = (id: string) =>
      sql`INSERT INTO customers (tenant_id, id, account, mail, welcomed_at) VALUES (${tenant_id}, ${customer_id}, ${account.id}, ${id}, ${sql.now})`;
    await step.effect("send welcome", sendWelcome, mail, { record: ({ id }) => ({ statements: [row(id)] }) });
    return { account: account.id };
  },
});
