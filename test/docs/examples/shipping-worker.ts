import { millrace } from "millrace";
import { following, shipping } from "./queues.ts";

const { handler, Runs, Recorder, Keeper } = millrace({ consumers: [shipping], elsewhere: [following] });

export { handler as default, Keeper, Recorder, Runs };
