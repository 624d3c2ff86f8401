import { defineRoom } from "millrace";
import { roomObject } from "millrace/worker";
import * as z from "zod";

/** Tokens with the scope operate send here, as text. */
export const desk = defineRoom<{ text: string }>({
  name: "desk",
  scopes: { send: "operate" },
  message: z.strictObject({ text: z.string() }),
  maxBytes: 1000,
  rate: { burst: 5, perSecond: 1 },
  maxSocketsPerName: 8,
  origins: ["https://console.example.com"],
});
/** Workers alone send here, with a short history. */
export const ticker = defineRoom({ name: "ticker", history: { messages: 3, bytes: 100 }, presence: 0, maxSockets: 2 });
/** Every token sends here, without a rate limit. */
export const hall = defineRoom<string>({ name: "hall", rate: { burst: 1000, perSecond: 1000 } });
/** Declared, and in no object's list. */
export const nowhere = defineRoom({ name: "nowhere" });

export const rooms = [desk, ticker, hall];

export class Rooms extends roomObject(rooms) {}
