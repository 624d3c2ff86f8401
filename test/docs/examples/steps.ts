import { defineStep, type EffectCall, notRetryable, retryAfter, upstreamRefused } from "millrace";

const COURIER = "https://courier.example.com/bookings";

/** Books a courier. It honours no key, but finds bookings by our reference. */
export const bookCourier = defineStep({
  effect: "lookup",
  retries: { limit: 3, delay: "5 seconds", backoff: "exponential" },
  timeout: "20 seconds",
  run: async ({ input, fetch }: EffectCall<{ reference: string; address: string }>) =>
    read<{ label: string }>(await fetch(COURIER, { method: "POST", body: JSON.stringify(input) })),
  async lookup({ input, fetch }) {
    const found = await fetch(`${COURIER}/${encodeURIComponent(input.reference)}`);
    return found.status === 404 ? undefined : read<{ label: string }>(found);
  },
});

/** Sends a mail through a service that honours no key and cannot be asked. */
export const sendMail = defineStep({
  effect: "once",
  run: async ({ input, fetch }: EffectCall<{ to: string; text: string }>) =>
    read<{ id: string }>(await fetch("https://mail.example.com/send", { method: "POST", body: JSON.stringify(input) })),
});

/** The meaning of an answer for the effect. */
async function read<Answer>(answer: Response): Promise<Answer> {
  if (answer.ok) return answer.json<Answer>();
  const said = `${new URL(answer.url).host} answered ${answer.status}.`;
  if (answer.status === 429) throw retryAfter(30_000, said, 429);
  if (answer.status === 401) throw notRetryable(`${said} Check the credential.`, 401);
  if (answer.status < 500) throw upstreamRefused(said, answer.status);
  throw new Error(`${said} The outcome is unknown.`);
}
