import { millrace } from "millrace";
import { following, shipping } from "./queues.ts";

export const { handler, Runs, Recorder, Keeper } = millrace({ consumers: [shipping], elsewhere: [following] });

export default handler;
