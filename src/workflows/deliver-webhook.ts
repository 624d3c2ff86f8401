import { defineWorkflow } from "../engine/index.ts";
import { WebhookDeliver } from "../messages/webhooks.ts";

export const deliverWebhook = defineWorkflow({ name: "deliver-webhook", on: WebhookDeliver, run: async () => undefined });
