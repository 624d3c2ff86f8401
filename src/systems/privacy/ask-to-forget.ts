import { type Accepted, enqueue, instanceId, type MillraceError, now, type Requester, signed, sql } from "millrace";
import { isKnown } from "millrace/operate";
import type { Catalog } from "millrace/worker";
import { ContactForget } from "../../messages/crm.ts";
import { pseudonymOf } from "../contacts/forgotten.ts";

/** Whom to forget, and why. */
export interface Wish {
  contactId: string;
  /** Names the occasion; the same one is the same command. */
  request: string;
  reason: string;
}

/** The request of whoever names none. */
export const FIRST = "first";

/**
 * Accepts the commands that forget people. Who is meant is written in one place, which goes with the last of what is found; the commands
 * say pseudonyms. Asked again, a wish is known. Errors, by place: as `enqueue`.
 */
export function askToForget(
  env: Env,
  catalog: Catalog,
  by: Requester & { actor: string },
  wishes: readonly Wish[],
): Promise<(Accepted | MillraceError)[]> {
  const { tenantId, actor } = by;
  const workflow = catalog.performer(ContactForget.type).name;
  const asked = wishes.map(({ contactId, request, reason }) => {
    const payload = { person: pseudonymOf(env, tenantId, contactId), request: occasionOf(env, tenantId, request) };
    const id = instanceId(tenantId, workflow, ContactForget.key(payload));
    // One that has been done is not begun again: its row would stay for ever. Of one that is under way, or gave up, the newest command
    // takes over.
    const row = sql`
      INSERT INTO forgettings (tenant_id, pseudonym, contact_id, asked_by, reason, asked_at, instance_id)
      SELECT ${tenantId}, ${payload.person}, ${contactId}, ${actor}, ${reason}, ${now}, ${id}
      WHERE NOT ${isKnown({ id })}
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

/** What the command calls a request: its name may say who the person is, and the command stays longer than that may. */
function occasionOf({ MILLRACE_KEY }: Env, tenantId: string, request: string): string {
  return request === FIRST ? request : signed(MILLRACE_KEY, "request to forget", tenantId, request);
}
