import { type Accepted, enqueueOne, errors, ids, texts } from "millrace";
import { acceptance, bodies } from "millrace/http";
import { instances, type Operator, statuses } from "millrace/operate";
import type { Catalog } from "millrace/worker";
import * as z from "zod";
import { TenantDelete } from "../messages/tenant.ts";
import { endTokens, tenantPreview } from "../systems/privacy/tenant.ts";
import type { ApiEnv } from "./env.ts";
import { operation } from "./operation.ts";

const deleteSchema = bodies.reasoned.extend({
  tenant: z.string().max(64).meta({ description: "The name of the token's own tenant, as a confirmation." }),
  request: texts.chosenName(100).default("first").meta({
    description:
      "The name of the request. While a deletion is running, another request with this name returns the same deletion. The audit records the first caller and reason.",
  }),
  // The field has no default, so that a client that omits the field does not delete a tenant by mistake.
  dry_run: z.boolean().meta({ description: "False deletes the data; true only counts it, at most 1,000 files per folder." }),
});

export const tenant = [
  operation("post", "/v1/tenant/delete", "deleteTenant", "tenant delete", {
    summary: "Delete all data of the tenant",
    description:
      "Deletes everything of the token's tenant, including its tokens. The deletion cannot be undone. After the response all tokens of the tenant are refused: if the response was lost, a 401 means that the request was accepted. Data in the CRM, on sites and at webhook receivers remains. Stop the senders to the tenant's queues first.",
    body: deleteSchema,
    plan: {
      answer: ["A dry run: the data to be deleted", z.object({ found: z.record(z.string(), z.int()) }).meta({ id: "TenantPreview" })],
      async run({ env, by, body }) {
        assertOwn(by, body.tenant);
        return { found: await tenantPreview(env, by.tenantId) };
      },
    },
    answer: ["Accepted", z.object(acceptance.shape).meta({ id: "TenantDeleteAccepted" })],
    status: 202,
    location: "The instance.",
    repeats: true,
    async run({ env, by, catalog, body: { tenant, dry_run: _, ...rest }, context }) {
      assertOwn(by, tenant);
      const accepted = await ask(env, catalog, { ...by, source: `api/${by.actor}` }, { tenant, asked_by: by.actor, ...rest });
      // The deletion command is already stored, so a failure to revoke tokens here is harmless. The first step of the deletion workflow
      // revokes the remaining tokens.
      await endTokens(env, by, rest.reason);
      return acceptance.answer(context, accepted);
    },
  }),
];

function assertOwn({ tenantId }: Operator, named: string): void {
  if (named !== tenantId) throw bodies.invalid([{ path: "tenant", message: "must be the name of the token's own tenant" }]);
}

/**
 * Accepts the deletion of a tenant. If a deletion of this tenant is already running, returns that deletion, even if its caller and reason
 * differ.
 */
async function ask(
  env: ApiEnv["Bindings"],
  catalog: Catalog,
  by: Operator & { source: string },
  payload: z.infer<typeof TenantDelete.payload>,
): Promise<Accepted> {
  try {
    return await enqueueOne(env, catalog, by, { command: TenantDelete, payload });
  } catch (error) {
    if (errors.codeOf(error) !== "idempotency_key_reused") throw error;
    const id = ids.instance(by.tenantId, catalog.performer(TenantDelete.type).name, TenantDelete.key(payload));
    const { status, due_at, correlation_id: correlationId } = await instances.get(env, by, id);
    if (!statuses.underWay.values.includes(status)) throw error;
    return { instanceId: id, replayed: true, status, dueAt: due_at === null ? null : Date.parse(due_at), correlationId };
  }
}
