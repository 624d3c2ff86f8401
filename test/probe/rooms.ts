import { defineRoom } from "millrace";
import { roomObject } from "millrace/worker";
import * as z from "zod";

/** Whoever may operate speaks here, in words. */
export const desk = defineRoom<{ text: string }>({
  name: "desk",
  scopes: { send: "operate" },
  message: z.strictObject({ text: z.string() }),
  maxBytes: 1000,
  rate: { burst: 5, perSecond: 1 },
  maxSocketsPerName: 8,
  origins: ["https://console.example.com"],
});
/** Workers alone speak here, and little is kept. */
export const ticker = defineRoom({ name: "ticker", history: { messages: 3, bytes: 100 }, presence: 0, maxSockets: 2 });
/** Everybody speaks here, as fast as they can. */
export const hall = defineRoom<string>({ name: "hall", rate: { burst: 1000, perSecond: 1000 } });
/** Declared, and in no object's list. */
export const nowhere = defineRoom({ name: "nowhere" });

export const rooms = [desk, ticker, hall];

export class Rooms extends roomObject(rooms) {}
