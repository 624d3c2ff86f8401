import { introspectWorkflow } from "cloudflare:test";
import { inject, onTestFinished } from "vitest";
import { type LabCall, labs } from "../../probe/lab.ts";
import type { Received, Treatment } from "../../systems/webhooks/receiver.ts";
import { until } from "../../until.ts";
import type { Asking } from "../asking.ts";
import { fresh, probeEnv } from "../harness.ts";

const receiverUrl = inject("receiverUrl");

/** An address for this test, which verifies requests by the secret that the tenant is shown. */
export async function addressOf({ get }: Asking, treatments: Treatment[] = []) {
  const hook = fresh("callback");
  const { secret } = (await get("/v1/callback-secret")).body;
  await fetch(`${receiverUrl}/tell/${hook}`, { method: "PUT", body: JSON.stringify({ secrets: [secret], treatments }) });
  return {
    url: `${receiverUrl}/hook/${hook}`,
    heard: (count = 0): Promise<Received[]> =>
      until(
        async () => (await fetch(`${receiverUrl}/ledger/${hook}`)).json<Received[]>(),
        (found) => found.length >= count,
      ),
  };
}

/** Starts a run of the lab with `code`. Returns its id. */
export async function ask({ post }: Asking, code: (call: LabCall) => Promise<unknown>, more: object = {}): Promise<string> {
  const name = fresh("lab");
  labs.set(name, code);
  const { status, body } = await post("/v1/commands", { type: "lab.requested", payload: { name, note: "private" }, ...more });
  if (status !== 202) throw new Error(JSON.stringify(body));
  return body.instance_id;
}

/** No call waits for its next attempt, until the end of the test. */
export async function hurried(): Promise<void> {
  const introspector = await introspectWorkflow((probeEnv as unknown as { SEND_CALLBACK: Workflow }).SEND_CALLBACK);
  await introspector.modifyAll(async (instance) => instance.disableRetryDelays());
  onTestFinished(() => introspector.dispose());
}

export function saidIn({ body }: Received): { type: string; data: Record<string, unknown> } {
  return JSON.parse(body);
}

/** The run and the status of each reported end. */
export const endsIn = (calls: readonly Received[]) =>
  calls.map((call) => `${String(saidIn(call).data.run)} ${String(saidIn(call).data.status)}`);
