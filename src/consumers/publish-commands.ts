import { consumeCommands } from "../engine/index.ts";
import { publishCommands } from "../messages/queues.ts";
import { publishArticle } from "../workflows/publish-article.ts";

export const publishCommandsConsumer = consumeCommands(publishCommands, publishArticle);
