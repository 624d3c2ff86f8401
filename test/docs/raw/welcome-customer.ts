import { WorkflowEntrypoint, type WorkflowEvent, type WorkflowStep } from "cloudflare:workers";
import { askDesk, lookUpDesk } from "./desk.ts";
import type { RawEnv } from "./env.ts";
import { guarded } from "./guard.ts";
import { CustomerWelcome, read } from "./messages.ts";
import { emit } from "./relay.ts";

/** Opens an account for a new customer and writes to them. */
export class WelcomeCustomer extends WorkflowEntrypoint<RawEnv, unknown> {
  override async run(event: Readonly<WorkflowEvent<unknown>>, step: WorkflowStep): Promise<void> {
    const { env } = this;
    const id = event.instanceId;
    try {
      const command = read(CustomerWelcome, event.payload);
      const { tenant_id, payload_inline } = command;
      const { customer_id, email } = payload_inline;
      const customer = `${tenant_id}/${customer_id}`;
      const account = await guarded(env, step, id, "open account", {
        class: "lookup",
        retries: { limit: 2, delay: 1000, backoff: "constant" },
        input: { customer },
        run: (signal) => askDesk(env, "accounts", { customer }, signal),
        lookup: (signal) => lookUpDesk(env, "accounts", customer, signal),
      });

      const mail = { customer, to: email, text: `Welcome! Your account is ${account.id}.` };
      await guarded(env, step, id, "send welcome", {
        class: "once",
        retries: { limit: 1, delay: 1000, backoff: "constant" },
        input: mail,
        run: (signal) => askDesk(env, "mails", mail, signal),
        writes: (sent) => [
          env.DB.prepare("INSERT INTO customers (tenant_id, id, account, mail, welcomed_at) VALUES (?1, ?2, ?3, ?4, ?5)").bind(
            tenant_id,
            customer_id,
            account.id,
            sent.id,
            Date.now(),
          ),
          emit(env, command, id, "send welcome", "customer.welcomed", { customer_id, account: account.id }),
        ],
      });
      await noteEnd(env, id, "complete");
    } catch (error) {
      await noteEnd(env, id, "errored", String(error));
      throw error;
    }
  }
}

/** Reports the end of a command; a failure is the one that its effect noted, or else the workflow's own error. */
async function noteEnd(env: RawEnv, id: string, status: "complete" | "errored", error: string | null = null): Promise<void> {
  await env.DB.prepare(
    `UPDATE commands SET status = ?2, check_at = NULL, error = iif(?3 IS NULL, NULL,
       coalesce((SELECT error FROM effects WHERE command_id = ?1 AND state <> 'done' AND error IS NOT NULL LIMIT 1), json_object('message', ?3)))
     WHERE id = ?1`,
  )
    .bind(id, status, error)
    .run();
}
