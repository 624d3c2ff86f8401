import type { facts } from "../../../../../src/api/facts.ts";
import type { webhookDeliveries } from "../../../../../src/api/webhook-deliveries.ts";
import type { webhookSecrets } from "../../../../../src/api/webhook-secrets.ts";
import type { webhooks } from "../../../../../src/api/webhooks.ts";
import { askerOf, type Output } from "../../api-client.ts";
import { Refusal } from "../../command.ts";

type Registered = Output<ReturnType<typeof webhooks>, "/v1/webhooks", "$post">;
type Webhook = Output<ReturnType<typeof webhooks>, "/v1/webhooks/:id", "$get">;
type Rotated = Output<ReturnType<typeof webhookSecrets>, "/v1/webhooks/:id/rotate", "$post">;
type DeliveryPage = Output<ReturnType<typeof webhookDeliveries>, "/v1/webhooks/:id/deliveries", "$get">;
type Delivery = Output<ReturnType<typeof webhookDeliveries>, "/v1/webhooks/:id/deliveries/:delivery", "$get">;
type Tested = Output<ReturnType<typeof webhookDeliveries>, "/v1/webhooks/:id/test", "$post">;
type Stated = Output<ReturnType<typeof facts>, "/v1/facts", "$post">;

export type { Delivery };

/** What the story needs of an engine's API. */
export function webhooksApi(url: string, token: string) {
  const ask = askerOf(url, token);
  return {
    register: (url: string, fact_types: string[], description: string) =>
      ask<Registered>("POST", "/v1/webhooks", { url, fact_types, description }),
    webhook: (id: string) => ask<Webhook>("GET", `/v1/webhooks/${id}`),
    rotate: (id: string) => ask<Rotated>("POST", `/v1/webhooks/${id}/rotate`, {}),
    test: (id: string) => ask<Tested>("POST", `/v1/webhooks/${id}/test`, {}),
    /** An endpoint's deliveries with their attempts, oldest first. */
    async deliveries(id: string): Promise<Delivery[]> {
      const { items } = await ask<DeliveryPage>("GET", `/v1/webhooks/${id}/deliveries?limit=100`);
      const detailed = await Promise.all(items.map((one) => ask<Delivery>("GET", `/v1/webhooks/${id}/deliveries/${one.id}`)));
      return detailed.reverse();
    },
    async state(facts: readonly object[]): Promise<void> {
      const { results } = await ask<Stated>("POST", "/v1/facts", { facts });
      for (const result of results) if ("problem" in result) throw new Refusal(`A fact was refused: ${result.problem.detail}`);
    },
  };
}

export type WebhooksApi = ReturnType<typeof webhooksApi>;
