import { json } from "node:stream/consumers";
import { Webhook } from "svix";

// The result of Svix's library for a delivery: each body is verified by its headers and the secret. Returns that it was accepted, or the
// reason of the refusal.

const { secret, deliveries } = (await json(process.stdin)) as {
  secret: string;
  deliveries: { body: string; headers: Record<string, string> }[];
};
const receiver = new Webhook(secret);
const answers = deliveries.map(({ body, headers }) => {
  try {
    receiver.verify(body, headers);
    return "taken";
  } catch (error) {
    return String(error);
  }
});
console.log(JSON.stringify(answers));
