import { introspectWorkflow } from "cloudflare:test";
import { inject, onTestFinished } from "vitest";
import { type LabCall, labs } from "../../probe/lab.ts";
import type { Received, Treatment } from "../../systems/webhooks/receiver.ts";
import { until } from "../../until.ts";
import type { Asking } from "../asking.ts";
import { fresh, probeEnv } from "../harness.ts";

const receiverUrl = inject("receiverUrl");

/** A callback address for this test. Its receiver verifies signatures with the tenant's secret. */
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

export async function ask({ post }: Asking, code: (call: LabCall) => Promise<unknown>, more: object = {}): Promise<string> {
  const name = fresh("lab");
  labs.set(name, code);
  const { status, body } = await post("/v1/commands", { type: "lab.requested", payload: { name, note: "private" }, ...more });
  if (status !== 202) throw new Error(JSON.stringify(body));
  return body.instance_id;
}

/** Repeats failed callbacks without delay, until the end of the test. */
export async function hurried(): Promise<void> {
  const introspector = await introspectWorkflow((probeEnv as unknown as { SEND_CALLBACK: Workflow }).SEND_CALLBACK);
  await introspector.modifyAll(async (instance) => instance.disableRetryDelays());
  onTestFinished(() => introspector.dispose());
}

export function saidIn({ body }: Received): { type: string; data: Record<string, unknown> } {
  return JSON.parse(body);
}

/** The instance id and the status in each callback. */
export const endsIn = (calls: readonly Received[]) =>
  calls.map((call) => `${String(saidIn(call).data.run)} ${String(saidIn(call).data.status)}`);
