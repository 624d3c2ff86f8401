import { defineConsumer } from "millrace";
import { socialCommands } from "../messages/queues.ts";
import { postToSocial } from "../workflows/post-to-social.ts";

export const posting = defineConsumer({ queue: socialCommands, priority: { low: "5 minutes" }, starts: [postToSocial] });
