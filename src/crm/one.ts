import { batch, type Commit, type Envelope, notRetryable } from "../engine/index.ts";
import { ContactSynced } from "../messages/crm.ts";
import { writesOf } from "./chunk.ts";
import { asStopped } from "./failures.ts";
import { candidatesByIds } from "./links.ts";
import { knownAs, push } from "./push.ts";
import { endSend, inTurn } from "./sends.ts";

interface OneCall {
  readonly env: Cloudflare.Env;
  readonly envelope: Envelope;
  readonly instanceId: string;
  readonly contactId: string;
}

/** As what the contact is in the CRM. */
interface Synced {
  contact_id: string;
  crm_id: string | null;
}

/**
 * Brings one contact, or the one it is known as, to the CRM; its own record there is merged into that one's. Asked for by name, it also
 * makes a record anew that was deleted there. Errors: `not_retryable` for a contact that is not there or that the CRM refuses,
 * `upstream_refused` when it may be taken later.
 */
export async function syncOne({ env, envelope, instanceId, contactId }: OneCall): Promise<Commit<Synced>> {
  const tenantId = envelope.tenant_id;
  const key = { tenantId, sendId: instanceId };
  const { pushed, into } = await inTurn(async () => {
    const asked = await candidatesByIds(env.DB, tenantId, [contactId]);
    const [self] = asked;
    if (!self) throw notRetryable(`There is no contact “${contactId}”. GET /v1/contacts lists those there are.`);
    const canonical = await knownAs({ env, tenantId }, asked);
    const into = canonical.get(contactId) ?? contactId;
    const meant = into === contactId ? asked : [self, ...(await candidatesByIds(env.DB, tenantId, [into]))];
    const as = new Map([...canonical, [into, into]]);
    const pushed = await push({ env, tenantId, key: instanceId, trace: envelope }, meant, as, { revive: true });
    return "busyUntil" in pushed ? pushed : { pushed, into };
  });
  const [why] = pushed.refused;
  if (why) {
    // Nobody has to wait for what is over.
    await batch(env.DB, endSend(key, []));
    throw asStopped("The CRM did not take the contact", why);
  }
  const link = pushed.links.find((one) => one.contactId === into);
  return {
    statements: writesOf(key, pushed),
    emit: link ? [ContactSynced.from({ contact_id: into, crm_id: link.crmId, revision: link.revision })] : [],
    output: { contact_id: into, crm_id: link?.crmId ?? null },
  };
}
