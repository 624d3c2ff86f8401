import { defineStep, notRetryable, sensitive } from "millrace";
import * as z from "zod";
import { callerWith } from "../../api/client.ts";
import { LabEvent } from "../../probe/lab.ts";
import { deliver, fresh, reaches, rows } from "../harness.ts";
import { runLab } from "../lab.ts";

export const REDACTED = "[redacted]";
export const ada = () => ({ email: `${fresh("ada")}@example.com`, born: 18_151_210, city: "London" });
/** A caller of the tenant of the lab's runs. */
export const reader = (...more: string[]) => callerWith(["read", "operate", ...more], "acme");

const mail = defineStep<{ to: string; text: string }, { sent_to: string }>({
  effect: "once",
  // An effect with a sensitive input field. The field is hidden before it is stored for display.
  input: z.object({ to: z.string(), text: sensitive(z.string()) }),
  run: async ({ input }) => ({ sent_to: input.to.toUpperCase() }),
});

/** A run that writes a person's e-mail address to every possible place. */
export async function told(person: ReturnType<typeof ada>, end: "ends" | "fails" = "ends") {
  const { instanceId } = await runLab(
    async ({ payload: { name, person: who }, step }) => {
      const to = who?.email ?? "";
      await step.effect("mail", mail, { to, text: "Hello" });
      await step.commit("tell", () => ({ emit: [LabEvent.from({ name, note: "n", row: fresh("row"), person: who })] }));
      const no = notRetryable(`No mailbox ${to}.`);
      if (end === "fails") await step.read("fail", () => Promise.reject(no));
      else
        await step.approve("ask", {
          question: `Is ${to} meant?`,
          details: { to, city: who?.city },
          timeout: "1 hour",
          otherwise: "reject",
        });
      return { mailed: to, at: who?.city };
    },
    { person },
  );
  await reaches(instanceId, end === "fails" ? "errored" : "waiting");
  return instanceId;
}

const LETTER = { schema_version: 1, kind: "command", source: "shop", correlation_id: "c", causation_id: "c", tenant_id: "acme" };
const TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/** A dead letter of a command with an invalid payload, or with `change` applied. */
export async function lettered(payload: object, change: object = {}): Promise<{ id: string; key: string }> {
  const key = fresh("letter");
  const at = { subject: key, created_at: "2026-10-01T09:30:00.000Z", traceparent: TRACE };
  await deliver("probe-commands", [
    { ...LETTER, ...at, message_type: "lab.requested", idempotency_key: key, payload_inline: payload, ...change },
  ]);
  const [row] = await rows<{ id: string }>("SELECT id FROM millrace_dead_letters WHERE idempotency_key = ?1", key);
  return { id: String(row?.id), key };
}
