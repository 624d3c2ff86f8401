import { defineCommand, defineConsumer, defineEvent, defineQueue, defineWorkflow, on, signal } from "millrace";
import * as z from "zod";

const parcelCommands = defineQueue({ name: "parcel-commands" });
const parcelEvents = defineQueue({ name: "parcel-events" });
const parcel = z.object({ parcel_id: z.string().min(1).max(64) });
const id = ({ parcel_id }: { parcel_id: string }) => parcel_id;

/** Follow a parcel until its recipient has signed for it. */
export const ParcelFollow = defineCommand({
  type: "parcel.follow",
  payload: parcel,
  key: id,
  subject: id,
  queue: parcelCommands,
});

/** A recipient has signed for a parcel, reported by the courier's own system. */
const ParcelSigned = defineEvent({
  type: "parcel.signed",
  payload: parcel.extend({ by: z.string().min(1).max(200) }),
  subject: id,
  queue: parcelEvents,
  access: { scope: "enqueue" },
});

export const followParcel = defineWorkflow({
  name: "follow-parcel",
  on: ParcelFollow,
  async run({ payload: { parcel_id }, step }) {
    const { by } = await step.waitFor("wait for the signature", ParcelSigned, { subject: parcel_id, timeout: "14 days" });
    return { signed_by: by };
  },
});

export const parcelConsumers = [
  defineConsumer({ queue: parcelCommands, starts: [followParcel] }),
  defineConsumer({ queue: parcelEvents, routes: [on(ParcelSigned, signal())] }),
];
