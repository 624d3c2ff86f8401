import { type Accepted, enqueue, ids, type MillraceError, sql } from "millrace";
import { instances } from "millrace/operate";
import type { Catalog } from "millrace/worker";
import { ContactForget } from "../../messages/crm.ts";
import { pseudonymOf } from "../contacts/forgotten.ts";

/** The contact to forget, and the reason. */
export interface Wish {
  contactId: string;
  /** The name of the request. Requests with the same name give the same command. */
  request: string;
  reason: string;
}

/** The default name of a request. */
export const FIRST = "first";

/**
 * Accepts the commands that forget people. Only the rows of the table `forgettings` contain the persons' ids, and each row is deleted at
 * the end. The commands contain pseudonyms. A repeated request is recognised. Throws the errors of `enqueue`, with their paths.
 */
export function askToForget(
  env: Env,
  catalog: Catalog,
  by: { tenantId: string; source: string; actor: string },
  wishes: readonly Wish[],
): Promise<(Accepted | MillraceError)[]> {
  const { tenantId, actor } = by;
  const workflow = catalog.performer(ContactForget.type).name;
  const asked = wishes.map(({ contactId, request, reason }) => {
    const payload = { person: pseudonymOf(env, tenantId, contactId), request: occasionOf(env, tenantId, request) };
    const id = ids.instance(tenantId, workflow, ContactForget.key(payload));
    // A finished request is not started again, because its row with the person's ids would remain. If an earlier command for the same
    // person is running or has failed, the newest command continues its request.
    const row = sql`
      INSERT INTO forgettings (tenant_id, pseudonym, contact_id, asked_by, reason, asked_at, instance_id)
      SELECT ${tenantId}, ${payload.person}, ${contactId}, ${actor}, ${reason}, ${sql.now}, ${id}
      WHERE NOT ${instances.isKnown({ id })}
      ON CONFLICT (tenant_id, pseudonym) DO UPDATE SET
        asked_by = excluded.asked_by, reason = excluded.reason, asked_at = excluded.asked_at, instance_id = excluded.instance_id`;
    return { request: { command: ContactForget, payload }, row };
  });
  return enqueue(
    env,
    catalog,
    by,
    asked.map(({ request }) => request),
    asked.map(({ row }) => row),
  );
}

/**
 * Returns the request's name for the command. The name is replaced by an HMAC, because the name may contain the person's id and the command
 * is stored longer.
 */
function occasionOf({ MILLRACE_KEY }: Env, tenantId: string, request: string): string {
  return request === FIRST ? request : ids.signed(MILLRACE_KEY, "request to forget", tenantId, request);
}
