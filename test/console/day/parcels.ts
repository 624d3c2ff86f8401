import {
  defineCommand,
  defineConsumer,
  defineEvent,
  defineQueue,
  defineStep,
  defineWorkflow,
  type EffectCall,
  notRetryable,
  on,
  signal,
} from "millrace";
import { defineLaneQueue } from "millrace/lanes";
import * as z from "zod";

const parcelCommands = defineQueue({ name: "parcel-commands" });
const parcelEvents = defineQueue({ name: "parcel-events" });
const customers = defineLaneQueue({ name: "customers" });

/** The command that follows a parcel until its customer has unpacked it. */
const ParcelFollow = defineCommand({
  type: "parcel.follow",
  payload: z.object({ parcel: z.string().min(1).max(64), signed: z.boolean() }),
  key: ({ parcel }) => parcel,
  subject: ({ parcel }) => parcel,
  queue: parcelCommands,
});

/** The event that a parcel was signed for. */
const ParcelSigned = defineEvent({
  type: "parcel.signed",
  payload: z.object({ parcel: z.string().min(1).max(64), by: z.string().min(1).max(200) }),
  subject: ({ parcel }) => parcel,
  queue: parcelEvents,
  access: { scope: "enqueue" },
});

/** The command that reports a customer's new address. The changes of one customer are reported in sequence. */
const AddressChange = defineCommand({
  type: "address.change",
  payload: z.object({ customer: z.string().min(1).max(64), change: z.int().min(1), address: z.string().min(1).max(200) }),
  key: ({ customer, change }) => `${customer}/${change}`,
  subject: ({ customer }) => customer,
  queue: customers,
});

type DepotCall = EffectCall<{ what: string; about: string }>;

/** A request to the depot. A refused request has no effect; a failed one has an unknown outcome. */
async function askDepot({ input: { what, about }, env, key, fetch }: DepotCall): Promise<string> {
  const { DEPOT_URL } = env as unknown as { DEPOT_URL: string };
  const asked = { method: "POST", headers: { "idempotency-key": key }, body: JSON.stringify({ about }) };
  const answer = await fetch(`${DEPOT_URL}/${what}`, asked);
  const said = `The depot answered ${answer.status}: ${await answer.text()}.`;
  if (answer.status >= 500) throw new Error(said);
  if (!answer.ok) throw notRetryable(said, answer.status);
  return said;
}

/** Retried long enough to be visible; the depot has a list of the parcels that it has weighed. */
const weigh = defineStep({
  effect: "lookup",
  retries: { limit: 500, delay: "20 seconds", backoff: "constant" },
  run: askDepot,
  async lookup({ input, env, fetch }: DepotCall) {
    const { DEPOT_URL } = env as unknown as { DEPOT_URL: string };
    const answer = await fetch(`${DEPOT_URL}/${input.what}/${input.about}`);
    return answer.status === 404 ? undefined : answer.text();
  },
});
const tellDepot = defineStep({ effect: "keyed", run: askDepot });

export const followParcel = defineWorkflow({
  name: "follow-parcel",
  on: ParcelFollow,
  async run({ payload: { parcel, signed }, step }) {
    const weight = await step.effect("weigh parcel", weigh, { what: "scales", about: parcel });
    if (!signed) await step.waitFor("wait for the signature", ParcelSigned, { subject: parcel, timeout: "14 days" });
    await step.sleep("let them unpack", "1 day");
    return { weight };
  },
});

export const changeAddress = defineWorkflow({
  name: "change-address",
  on: AddressChange,
  async run({ payload: { customer, address }, step }) {
    await step.effect("tell the depot", tellDepot, { what: "addresses", about: `${customer}: ${address}` });
  },
});

export const parcelConsumers = [
  defineConsumer({ queue: parcelCommands, starts: [followParcel] }),
  defineConsumer({ queue: parcelEvents, routes: [on(ParcelSigned, signal())] }),
  defineConsumer({ queue: customers, starts: [changeAddress], onFailure: "hold" }),
];
