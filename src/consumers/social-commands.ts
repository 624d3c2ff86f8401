import { consumeCommands } from "../engine/index.ts";
import { socialCommands } from "../messages/queues.ts";
import { postToSocial } from "../workflows/post-to-social.ts";

export const socialCommandsConsumer = consumeCommands(socialCommands, postToSocial);
