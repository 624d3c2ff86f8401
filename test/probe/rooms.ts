import { defineRoom, roomObject } from "millrace/rooms";
import * as z from "zod";

/** A room where tokens with the scope `operate` send text. */
export const desk = defineRoom<{ text: string }>({
  name: "desk",
  scopes: { send: "operate" },
  message: z.strictObject({ text: z.string() }),
  maxBytes: 1000,
  rate: { burst: 5, perSecond: 1 },
  maxSocketsPerName: 8,
  origins: ["https://console.example.com"],
});
/** A room where only Workers send, with a history of three messages. */
export const ticker = defineRoom({ name: "ticker", history: { messages: 3, bytes: 100 }, presence: 0, maxSockets: 2 });
/** A room where every token sends, with a rate limit that no test reaches. */
export const hall = defineRoom<string>({ name: "hall", rate: { burst: 1000, perSecond: 1000 } });
/** A room that no Durable Object lists. */
export const nowhere = defineRoom({ name: "nowhere" });

export const rooms = [desk, ticker, hall];

export class Rooms extends roomObject(rooms) {}
