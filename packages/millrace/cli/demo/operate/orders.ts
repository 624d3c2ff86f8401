import type { Order } from "./api.ts";

const order = (number: number, pieces: number): Order => ({ order: `order-${number}`, to: "12 Mill Lane", pieces });

/** What the courier refuses at first. */
export const FAILED = Array.from({ length: 20 }, (_, at) => order(at + 1, at + 1));
/** So much goes only with a person's yes. */
export const LARGE = order(21, 400);
/** Its mail's answer gets lost. */
export const LOST = order(22, 2);
/** It comes from another program, which forgets how many pieces are meant. */
export const SHORT = order(23, 3);
/** What that program sends as well: messages of a type that nobody here takes. */
export const STRAY = { type: "parcel.returned", keys: ["parcel-1", "parcel-2", "parcel-3"] } as const;
