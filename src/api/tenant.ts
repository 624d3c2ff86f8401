import { type Accepted, enqueueOne, errors, ids, texts } from "millrace";
import { acceptance, answers, bodies, createRoute, needs, Routes } from "millrace/http";
import { instances, type Operator, statuses } from "millrace/operate";
import type { Catalog } from "millrace/worker";
import * as z from "zod";
import { TenantDelete } from "../messages/tenant.ts";
import { endTokens, tenantPreview } from "../systems/privacy/tenant.ts";
import type { ApiEnv } from "./env.ts";
import { problems } from "./problems.ts";

const deleteSchema = bodies.reasoned.extend({
  tenant: z.string().max(64).meta({ description: "The name of the token's own tenant, as a confirmation." }),
  request: texts.chosenName(100).default("first").meta({
    description:
      "The name of the request. While a deletion is running, another request with this name returns the same deletion. The audit records the first caller and reason.",
  }),
  // The field has no default, so that a client that omits the field does not delete a tenant by mistake.
  dry_run: z.boolean().meta({ description: "False deletes the data; true only counts it, at most 1,000 files per folder." }),
});

const remove = createRoute({
  method: "post",
  path: "/v1/tenant/delete",
  operationId: "deleteTenant",
  command: "tenant delete",
  summary: "Delete all data of the tenant",
  description:
    "Deletes everything of the token's tenant, including its tokens. The deletion cannot be undone. After the response all tokens of the tenant are refused: if the response was lost, a 401 means that the request was accepted. Data in the CRM, on sites and at webhook receivers remains. Stop the senders to the tenant's queues first.",
  ...needs("operate"),
  request: { body: bodies.json(deleteSchema) },
  responses: {
    200: answers("A dry run: the data to be deleted", z.object({ found: z.record(z.string(), z.int()) }).meta({ id: "TenantPreview" })),
    202: acceptance.answer(z.object(acceptance.shape).meta({ id: "TenantDeleteAccepted" })),
    ...problems(...bodies.refusals),
  },
});

export function tenant(catalog: Catalog) {
  return new Routes<ApiEnv>().openapi(remove, async (context) => {
    const { tenant: named, dry_run: isDry, ...rest } = await bodies.read(context.req, deleteSchema);
    const { env, var: bound } = context;
    const { tenantId, actor } = bound.caller;
    if (named !== tenantId) throw bodies.invalid([{ path: "tenant", message: "must be the name of the token's own tenant" }]);
    if (isDry) return context.json({ found: await tenantPreview(env, tenantId) }, 200);
    const payload = { tenant: named, asked_by: actor, ...rest };
    const accepted = await ask(env, catalog, { ...bound.caller, source: `api/${actor}` }, payload);
    // The deletion command is already stored, so a failure to revoke tokens here is harmless. The first step of the deletion workflow
    // revokes the remaining tokens.
    await endTokens(env, bound.caller, rest.reason);
    return context.json(acceptance.view(accepted), 202, acceptance.headers(accepted));
  });
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
